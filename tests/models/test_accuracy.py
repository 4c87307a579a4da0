"""Measuring predictors: known errors of known models."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from hipshield.errors import HipshieldError
from hipshield.models.accuracy import (
    contexts,
    final_contexts,
    measure_adapting,
    measure_errors,
    readout,
)
from hipshield.models.episodes import States
from hipshield.models.motion import plain

# A walk v' = v + a + φ. The predictor below believes in the mean of the changes v' − v − a that
# it has seen so far, which is φ from the first transition on and 0 before, plus `off`.
MOTION = plain("walk", actions=1, now=1, features=1, guess=lambda obs: obs)


@dataclass(frozen=True)
class Mean:
    """Believes in the mean of what it saw, and is wrong by `off` on purpose."""

    off: float = 0.0
    kind = "mean"
    motion = MOTION
    context = 1

    def start(self, params, phi):
        return jnp.zeros(2)

    def learn(self, params, belief, x, a, y):
        return belief + jnp.array([y[0] - a[0], 1.0])

    def adapt(self, params, belief):
        return (belief[0] / jnp.maximum(belief[1], 1.0))[None]

    def predict(self, params, b, x, a):
        change = a + b + self.off
        return jnp.concatenate([change, change], -1)


def walks(episodes=4, steps=240):
    rng = np.random.default_rng(0)
    phi = rng.uniform(0.1, 0.3, (episodes, 1)).astype(np.float32)
    action = rng.uniform(-0.5, 0.5, (episodes, steps, 1)).astype(np.float32)
    v = np.zeros((episodes, steps + 1, 1), np.float32)
    for t in range(steps):
        v[:, t + 1] = v[:, t] + action[:, t] + phi
    return States(np.asarray(MOTION.start(v, v)), action, phi)


def test_a_model_that_is_off_by_a_known_amount_errs_by_it_in_every_step():
    errors = measure_errors(Mean(0.01), None, walks(), leads=(1, 5, 20))
    assert errors.each.shape == (4, 5, 3)  # starts at 100, 125, 150, 175, 200 (+ 20 ≤ 240)
    np.testing.assert_allclose([errors.mean()[h] for h in (1, 5, 20)], [0.01, 0.05, 0.2], atol=3e-4)
    np.testing.assert_allclose(errors.quantile(0.98)[20], 0.2, atol=1e-3)


def test_a_right_model_does_not_err():
    assert max(measure_errors(Mean(), None, walks()).mean().values()) < 1e-3


def test_adapting_is_over_after_one_transition():
    states = walks()
    curve = measure_adapting(Mean(), None, states, after=(0, 1, 10))
    np.testing.assert_allclose(curve[0][20], 20 * states.phi.mean(), rtol=1e-3)
    for n in (1, 10, "hindsight"):
        assert curve[n][20] < 1e-3


def test_contexts_are_those_before_each_stretch():
    states = walks()
    b = np.asarray(contexts(Mean(), None, states, 60))
    assert b.shape == (4, 4, 1)
    np.testing.assert_array_equal(b[:, 0], 0)
    np.testing.assert_allclose(b[:, 1:], np.broadcast_to(states.phi[:, None], (4, 3, 1)), rtol=1e-3)
    np.testing.assert_allclose(final_contexts(Mean(), None, states), states.phi, rtol=1e-3)


def test_readout_is_r_squared():
    rng = np.random.default_rng(0)
    b = rng.normal(size=(4000, 2))
    noise = rng.normal(size=4000)
    # φ₁ is linear in b, φ₂ half of it (R² = 1/2), φ₃ has nothing to do with it.
    phi = np.column_stack([3 * b[:, 0] - b[:, 1] + 7, b[:, 0] + noise, rng.normal(size=4000)])
    score = readout(b[:2000], phi[:2000], b[2000:], phi[2000:])
    np.testing.assert_allclose(score, [1, 0.5, 0], atol=0.06)  # ± 3 s.d. of R² from 2000 rows


def test_what_cannot_be_measured_is_refused():
    for leads in ((), (0, 1), (5, 1), (1, 1)):
        with pytest.raises(HipshieldError, match="Leads must be rising"):
            measure_errors(Mean(), None, walks(), leads)
    with pytest.raises(HipshieldError, match="too short"):
        measure_errors(Mean(), None, walks(steps=30), (40,))
    with pytest.raises(HipshieldError, match="too short"):
        measure_adapting(Mean(), None, walks(steps=100))
