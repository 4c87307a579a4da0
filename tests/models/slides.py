"""Made-up robots with known physics, for predictors to learn."""

import numpy as np

from hipshield.models.fit import FitSettings
from hipshield.models.motion import plain
from hipshield.models.predictor import Rows

# A slide with a thrust and a drag that nobody tells: v' = v + 0.1 (φ₁ a − φ₂ v), observed exactly.
MOTION = plain("slide", actions=1, now=1, features=1, guess=lambda obs: obs)
SETTINGS = FitSettings(iterations=1500, episodes=16, steps=60, rate=1e-2, every=100)


def slides(episodes, steps, low=0.3, high=1.7, seed=0):
    """Episodes of slides, as (obs, action, φ) with one observation more than actions."""
    rng = np.random.default_rng(seed)
    phi = rng.uniform(low, high, (episodes, 2)).astype(np.float32)
    action = rng.uniform(-1, 1, (episodes, steps, 1)).astype(np.float32)
    v = np.zeros((episodes, steps + 1, 1), np.float32)
    v[:, 0, 0] = rng.uniform(-1, 1, episodes)
    for t in range(steps):
        change = phi[:, :1] * action[:, t] - phi[:, 1:] * v[:, t]
        v[:, t + 1] = v[:, t] + 0.1 * change
    return v, action, phi


def rows_of(v, action, phi):
    z = MOTION.start(v, v)  # the feature is the velocity itself
    return Rows(MOTION.x(z)[:, :-1], action, MOTION.truth(z[:, :-1], z[:, 1:]), phi)


def blind_guess(rows):
    """The best guess of y that knows nothing of φ but its mean, which is 1."""
    return np.repeat(0.1 * (rows.action - rows.x), MOTION.outputs, -1)
