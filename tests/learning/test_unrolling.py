"""USL's correction of actions: iterates worked by hand, bounds, and the networks' own gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipshield.learning.networks import Critic
from hipshield.learning.normaliser import Normaliser, normalise
from hipshield.learning.unrolling import Unrolling, make_layer, unroll
from hipshield.mlp import Mlp

HOW = Unrolling()


def quadratic(rows, action):
    """Q_C = a·a, whatever the robot."""
    return (action**2).sum(1), 2 * action


def test_known_iterates():
    """Q_C = a·a from (0.8, 0.4): the gradient's larger part is the first, so a step moves by
    (−0.05, −0.025). Q_C after k steps is 1.25 (0.8 − 0.05 k)²: 0.528 after 3, 0.45 after 4."""
    done = unroll(HOW, 0.5, quadratic, np.array([[0.8, 0.4]]))
    np.testing.assert_allclose(done.action, [[0.6, 0.3]], atol=1e-7)
    np.testing.assert_allclose([done.before, done.after], [[0.8], [0.45]], atol=1e-6)
    assert done.iterations == 4
    short = unroll(Unrolling(iterations=3), 0.5, quadratic, np.array([[0.8, 0.4]]))
    np.testing.assert_allclose(short.action, [[0.65, 0.325]], atol=1e-7)
    np.testing.assert_allclose(short.after, 0.528125, atol=1e-6)
    assert short.iterations == 3


def test_safe_actions_pass_bit_for_bit_and_are_not_asked_about_again():
    proposed = np.float32([[0.1, 1 / 3], [0.9, 0.0], [-0.2, 0.1]])
    asked = []

    def model(rows, action):
        asked.append(list(rows))
        return quadratic(rows, action)

    done = unroll(HOW, 0.7, model, proposed)
    np.testing.assert_array_equal(done.action[[0, 2]], proposed[[0, 2]])
    np.testing.assert_array_equal(done.iterations, [0, 2, 0])  # 0.81, 0.7225, 0.64
    assert asked == [[0, 1, 2], [1], [1]]
    assert done.action.dtype == np.float32
    np.testing.assert_array_equal(proposed, np.float32([[0.1, 1 / 3], [0.9, 0.0], [-0.2, 0.1]]))
    np.testing.assert_array_equal(done.before == done.after, [True, False, True])


def test_an_action_at_the_border_stays_inside_and_moves_where_it_can():
    """Q_C = 2 − a₁ − a₂ from (0.97, 0): both go up by 0.05, the first only to the border."""

    def model(rows, action):
        return 2 - action.sum(1), -np.ones_like(action)

    done = unroll(Unrolling(iterations=3), 0.1, model, np.array([[0.97, 0.0]]))
    np.testing.assert_allclose(done.action, [[1.0, 0.15]], atol=1e-7)
    assert done.iterations == 3


def test_a_flat_cost_leaves_the_action():
    def model(rows, action):
        return np.ones(len(action)), np.zeros_like(action)

    done = unroll(HOW, 0.1, model, np.array([[0.3, -0.4]]))
    np.testing.assert_array_equal(done.action, [[0.3, -0.4]])


@given(
    st.lists(st.tuples(*[st.floats(-1, 1, width=32)] * 2), min_size=1, max_size=4),
    st.floats(-1, 1),
    st.floats(-2, 2),
    st.floats(-2, 2),
)
def test_bounds_and_limits_of_any_correction(actions, delta, a, b):
    proposed = np.float32(actions)

    def model(rows, action):
        return a * action[:, 0] + b * action[:, 1] ** 2, np.stack(
            [np.full(len(action), a), 2 * b * action[:, 1]], 1
        )

    done = unroll(Unrolling(iterations=5), delta, model, proposed)
    assert (np.abs(done.action) <= 1).all()
    assert (done.iterations <= 5).all()
    moved = np.abs(done.action - proposed).max(1)
    assert (moved <= 0.05 * done.iterations + 1e-5).all()
    np.testing.assert_array_equal(done.iterations > 0, done.before > delta)
    assert ((done.after <= delta) | (done.iterations == 5)).all()


@pytest.mark.parametrize("hidden", [(5,), (5, 4, 3)])
def test_the_layer_follows_the_networks_gradient(hidden):
    """The same steps taken with JAX's own derivative of the critic."""
    critic = Critic(Mlp((5, *hidden, 1)))
    theta = critic.init(jax.random.key(0)) * 2
    draw = np.random.default_rng(0)
    x = draw.normal(size=(6, 3)).astype(np.float32)
    proposed = draw.uniform(-1, 1, (6, 2)).astype(np.float32)
    stats = Normaliser(10.0, np.float32([0.5, 0, -1]), np.float32([9, 36, 1]))

    seen = normalise(stats, x)

    @jax.jit
    def ask(action):
        def cost(a):
            return critic.apply(theta, jnp.concatenate([seen, a], axis=1))

        return cost(action), jax.grad(lambda a: cost(a).sum())(action)

    value = np.asarray(ask(proposed)[0])
    delta = float(np.median(value))
    how = Unrolling(iterations=3)
    executed, facts = make_layer(how, delta, critic, theta, stats)(x, proposed)
    np.testing.assert_allclose(facts["q_cost_proposed"], value, atol=1e-5)
    action = proposed.copy()
    for _ in range(3):
        now, slope = map(np.asarray, ask(action))
        for i in range(6):
            if now[i] > delta:
                step = 0.05 * slope[i] / np.abs(slope[i]).max()
                action[i] = np.clip(action[i] - step, -1, 1)
    np.testing.assert_allclose(executed, action, atol=1e-5)
    np.testing.assert_allclose(facts["q_cost_executed"], ask(action)[0], atol=1e-5)
    np.testing.assert_array_equal(facts["corrected"], facts["iterations"] > 0)
    assert 0 < facts["corrected"].sum() < 6
    np.testing.assert_allclose(facts["correction"], np.abs(executed - proposed).max(1))


def test_the_bound_is_the_threshold_and_the_limits_discounted_share():
    """10 an episode of 5 steps is 2 a step; γ = 0.5 sees 1 + ½ + ¼ + ⅛ + 1/16 = 1.9375 of them."""
    assert HOW.bound(0.0, 0.99, 1000) == 0.1
    assert HOW.bound(10.0, 0.5, 5) == pytest.approx(0.1 + 2 * 1.9375)
    assert HOW.bound(10.0, 1.0, 5) == pytest.approx(10.1)
