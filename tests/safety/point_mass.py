"""A point mass on a frictionless plane: its exact model fits in a line, its stops in a formula.

    v' = v + GRIP · a · STEP        p' = p + (v + v') / 2 · STEP        a in [−1, 1]²

From speed v it stops within v² / (2 GRIP) metres.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hipshield.models.identify import Track
from hipshield.models.motion import Motion
from hipshield.models.predictor import Scale
from hipshield.worlds.margins import Scene

STEP, GRIP = 0.05, 2.0  # seconds; metres per second², per unit of action

MOTION = Motion(
    name="point mass",
    pose=2,
    now=2,
    actions=2,
    outputs=4,
    look=lambda obs, feature: (feature, obs),
    change=lambda before, after: jnp.concatenate(
        [after[0] - before[0], after[1] - before[1]], -1
    ),
    carry=lambda before, y: (before[0] + y[..., :2], before[1] + y[..., 2:]),
    feature=lambda pose, now: pose,
)  # fmt: skip


class Physics(NamedTuple):
    """Parameters of the exact model: what it takes for the grip, over what it is."""

    theta: Any
    scale: Scale


@dataclass(frozen=True)
class PointMass:
    """The exact model; a belief is b itself: a factor of the grip."""

    motion: Motion = MOTION
    context: int = 1
    kind: str = "point-mass"

    def adapt(self, params, belief):
        return belief

    def learn(self, params, belief, x, a, y):
        return belief

    def predict(self, params, b, x, a):
        change = params.theta * b * GRIP * STEP * a
        return jnp.concatenate([(x + change / 2) * STEP, change], -1)


EXACT = Physics(jnp.float32(1.0), Scale(*[jnp.ones(2)] * 2, *[jnp.ones(4)] * 2, *[jnp.ones(1)] * 2))


def tracks(position, velocity):
    """Return the track of a batch of robots."""
    z = jnp.concatenate([jnp.asarray(position), jnp.asarray(velocity)], -1).astype(jnp.float32)
    return Track(z, jnp.ones((len(z), 1)))


def drive(track, action):
    """Return what really happens."""
    y = jax.vmap(PointMass().predict, (None, None, 0, 0))(
        EXACT, jnp.ones(1), MOTION.x(track.z), action
    )
    return track._replace(z=MOTION.move(track.z, action, y))


def walls(robots, at):
    """Return a scene without obstacles, within walls at ± `at`."""
    none = np.zeros((robots, 0, 2), np.float32)
    full = np.full(robots, np.inf, np.float32)
    return Scene(none, np.zeros(robots, np.float32), np.full(robots, at, np.float32), full)


def hazards(centres, radius=0.2):
    """Return a scene with obstacles, shape (robots, count, 2)."""
    robots = len(centres)
    full = np.full(robots, np.inf, np.float32)
    return Scene(np.asarray(centres, np.float32), np.full(robots, radius, np.float32), full, full)
