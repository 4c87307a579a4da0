"""Plans: candidates, braking, and rollouts against a plain loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from point_mass import EXACT, GRIP, MOTION, STEP, PointMass

from hipshield.models.predictor import model_at
from hipshield.safety import plans

LOW, HIGH = np.array([-1.0, -1.0], np.float32), np.array([1.0, 1.0], np.float32)
MODEL = model_at(PointMass(), EXACT, jnp.ones(1))


@pytest.mark.parametrize(("size", "count"), [(1, 3), (2, 9), (3, 15), (6, 13)])
def test_manoeuvres_of_any_robot(size, count):
    low, high = np.full(size, -1.0), np.full(size, 3.0)
    found = plans.manoeuvres(low, high)
    assert found.shape == (count, size)
    assert len(np.unique(found, axis=0)) == count
    np.testing.assert_array_equal(found[0], np.ones(size))  # the middle comes first
    np.testing.assert_array_equal([found.min(), found.max()], [-1, 3])


def test_the_library_holds_each_for_each_duration():
    found = plans.library(LOW, HIGH, 4, (1, 9))
    assert found.actions.shape == (18, 4, 2)
    np.testing.assert_array_equal(found.held, [1] * 9 + [4] * 9)


def test_what_is_left_of_a_plan():
    left = plans.next_of(jnp.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(left, [[2, 3], [4, 5], [4, 5]])


def test_the_brake_is_the_action_that_stops_it():
    # J = GRIP · STEP · I, so one step stops a robot slower than 0.1 m/s, but for the ridge.
    z = jnp.array([3.0, 4.0, 0.05, -0.08])
    gain = plans.brake_gain(MOTION, MODEL, z, jnp.zeros(2), jnp.ones(2))
    np.testing.assert_allclose(gain, np.eye(2) / (GRIP * STEP), rtol=2e-3)
    action = plans.brake(MOTION, gain, LOW, HIGH)(z)
    after = MOTION.move(z, action, MODEL(MOTION.x(z), action))
    assert np.abs(after[2:]).max() < 1e-3
    fast = plans.brake(MOTION, gain, LOW, HIGH)(jnp.array([0.0, 0.0, 3.0, -3.0]))
    np.testing.assert_array_equal(fast, [-1, 1])


def test_the_brake_weighs_velocities_by_their_spread():
    # One action moves both velocities alike; only one of them is large for its spread.
    def model(x, a):
        return jnp.concatenate([jnp.zeros(2), jnp.stack([a[0], a[0]])])

    gain = plans.brake_gain(MOTION, model, jnp.zeros(4), jnp.zeros(2), jnp.array([1.0, 10.0]))
    # argmin over a of (v₁ + a)² + (v₂ + a)² / 100 is −(v₁ + v₂ / 100) / 1.01.
    np.testing.assert_allclose(gain[0], [1 / 1.01, 0.01 / 1.01], rtol=2e-3)
    np.testing.assert_allclose(gain[1], [0, 0], atol=1e-6)  # moves nothing: stays where it is


def test_a_rollout_is_a_loop():
    rng = np.random.default_rng(0)
    z = jnp.asarray(rng.standard_normal(4), jnp.float32)
    samples = jnp.asarray(rng.uniform(-1, 1, (3, 2)), jnp.float32)
    parts = [plans.held_actions(samples, 6, 2), plans.library(LOW, HIGH, 6, (4,))]
    proposals = plans.joined(parts)
    gain = plans.brake_gain(MOTION, MODEL, z, jnp.zeros(2), jnp.ones(2))
    stop = plans.brake(MOTION, gain, LOW, HIGH)
    found = jax.jit(lambda z: plans.rollout(MOTION, MODEL, z, proposals, stop))(z)
    assert found.e.shape == (12, 6, 2)
    for c, (actions, held) in enumerate(zip(*proposals, strict=True)):
        state = z
        for t in range(6):
            action = actions[t] if t < held else stop(state)
            state = MOTION.move(state, action, MODEL(MOTION.x(state), action))
            np.testing.assert_allclose(found.actions[c, t], action, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(found.e[c, t], MOTION.e(state), rtol=1e-5, atol=1e-6)


def test_braking_from_v_takes_v_squared_over_twice_the_grip():
    # From 1 m/s at 2 m/s²: 10 steps of 0.05 s to a standstill, 0.25 m on.
    z = jnp.array([0.0, 0.0, 1.0, 0.0])
    gain = plans.brake_gain(MOTION, MODEL, z, jnp.zeros(2), jnp.ones(2))
    nothing_held = plans.Proposals(jnp.zeros((1, 12, 2)), jnp.zeros(1))
    found = plans.rollout(MOTION, MODEL, z, nothing_held, plans.brake(MOTION, gain, LOW, HIGH))
    np.testing.assert_allclose(found.e[0, 9:, 0], 0.25, atol=1e-3)
    assert found.e[0, 8, 0] < 0.249
