from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipshield.learning.advantages import centred, gae, standardised

compiled = jax.jit(gae)
SHAPES = [(1, 1), (2, 3), (50, 2)]


def plain_gae(reward, value, last, gamma, lam):
    """GAE by its definition: one robot and one step at a time, in float64."""
    steps, robots = reward.shape
    advantage = np.zeros((steps, robots))
    for robot in range(robots):
        later, after = 0.0, float(last[robot])
        for t in range(steps - 1, -1, -1):
            now = float(value[t, robot])
            delta = float(reward[t, robot]) + gamma * after - now
            later = delta + gamma * lam * later
            advantage[t, robot], after = later, now
    return advantage


def draw_case(seed, shape):
    draw = np.random.default_rng(seed)
    parts = draw.normal(size=shape), draw.normal(size=shape), draw.normal(size=shape[1])
    return [p.astype(np.float32) for p in parts]


def same(got, expected):
    # Sums of at most 50 numbers near 1: float32 leaves an error of about 50 * 1e-7.
    return np.allclose(got, expected, rtol=1e-4, atol=2e-5)


@given(
    st.integers(0, 10**6), st.sampled_from(SHAPES), st.floats(0, 1, width=32),
    st.floats(0, 1, width=32),
)  # fmt: skip
def test_agrees_with_a_plain_loop(seed, shape, gamma, lam):
    reward, value, last = draw_case(seed, shape)
    advantage, target = compiled(reward, value, last, gamma, lam)
    expected = plain_gae(reward, value, last, gamma, lam)
    assert advantage.shape == target.shape == shape
    assert same(advantage, expected)
    assert same(target, expected + value)


def test_the_comparison_notices_small_mistakes():
    reward, value, last = draw_case(0, (50, 2))
    advantage, _ = compiled(reward, value, last, 0.99, 0.95)
    assert same(advantage, plain_gae(reward, value, last, 0.99, 0.95))
    assert not same(advantage, plain_gae(reward, value, last, 0.99, 0.951))
    assert not same(advantage, plain_gae(reward, value, last, 0.9901, 0.95))
    assert not same(advantage, plain_gae(reward, value, 0 * last, 0.99, 0.95))


def test_three_steps_by_hand():
    # γ = 1/2, λ = 1/2, so γλ = 1/4.
    # r = 1, 2, 3 and V = 4, 2, 6; the state after the last step is worth 8.
    # δ_2 = 3 + 8/2 - 6 =  1      A_2 = 1
    # δ_1 = 2 + 6/2 - 2 =  3      A_1 = 3 + 1/4 = 3.25
    # δ_0 = 1 + 2/2 - 4 = -2      A_0 = -2 + 3.25/4 = -1.1875
    # Targets A + V: 2.8125, 5.25, 7. All are exact in binary.
    reward, value = jnp.array([[1.0], [2.0], [3.0]]), jnp.array([[4.0], [2.0], [6.0]])
    advantage, target = compiled(reward, value, jnp.array([8.0]), 0.5, 0.5)
    assert advantage.ravel().tolist() == [-1.1875, 3.25, 1.0]
    assert target.ravel().tolist() == [2.8125, 5.25, 7.0]


def test_lambda_zero_is_the_td_error():
    reward, value, last = draw_case(1, (50, 2))
    advantage, _ = compiled(reward, value, last, 0.97, 0.0)
    after = np.concatenate([value[1:], last[None]])
    np.testing.assert_allclose(advantage, reward + 0.97 * after - value, atol=1e-6)


def test_lambda_one_is_the_discounted_return_less_the_value():
    reward, value, last = draw_case(2, (50, 2))
    advantage, target = compiled(reward, value, last, 0.97, 1.0)
    for t in range(50):
        weights = 0.97 ** np.arange(50 - t)
        rest = weights @ reward[t:].astype(float) + 0.97 ** (50 - t) * last
        np.testing.assert_allclose(target[t], rest, atol=2e-5)
        np.testing.assert_allclose(advantage[t], rest - value[t], atol=2e-5)


def test_nothing_comes_of_nothing():
    nothing = jnp.zeros((50, 2))
    advantage, target = compiled(nothing, nothing, jnp.zeros(2), 0.99, 0.95)
    assert not advantage.any() and not target.any()
    # ... but the value of the state after the last step counts, less with each step before it.
    advantage, _ = compiled(nothing, nothing, jnp.ones(2), 0.99, 0.95)
    assert advantage[-1, 0] == pytest.approx(0.99)
    assert all(earlier < later for earlier, later in pairwise(advantage[:, 0].tolist()))


def test_values_that_are_right_leave_no_advantage():
    # A reward of 1 for ever, γ = 1/2: every state is worth 2.
    value = jnp.full((9, 2), 2.0)
    advantage, target = compiled(jnp.ones((9, 2)), value, jnp.full(2, 2.0), 0.5, 0.95)
    assert not advantage.any() and (target == 2.0).all()


def test_robots_do_not_mix():
    reward, value, last = draw_case(3, (50, 2))
    before, _ = compiled(reward, value, last, 0.99, 0.95)
    reward[:, 1] += 1
    after, _ = compiled(reward, value, last, 0.99, 0.95)
    np.testing.assert_array_equal(before[:, 0], after[:, 0])
    assert (before[:, 1] != after[:, 1]).all()


def test_standardised_by_hand():
    # 1, 2, 3, 6: mean 3; squared deviations 4 + 1 + 0 + 9 = 14; spread √(14 / 3) = 2.160247.
    got = standardised(jnp.array([[1.0, 2.0], [3.0, 6.0]]))
    np.testing.assert_allclose(got, [[-0.9258201, -0.4629100], [0.0, 1.3887301]], atol=1e-6)


@given(st.integers(0, 10**6), st.floats(-100, 100), st.floats(0.01, 100))
def test_standardised_forgets_offset_and_scale(seed, offset, scale):
    x = np.random.default_rng(seed).normal(size=(20, 3)).astype(np.float32)
    moved = (scale * x + offset).astype(np.float32)
    got = np.asarray(standardised(jnp.asarray(moved)), float)
    # float32 holds `moved` to about 1e-7 of its size, which is `near` in units of its spread.
    near = 1e-5 * (1 + abs(offset) / scale)
    assert abs(got.mean()) < near
    assert abs(got.std(ddof=1) - 1) < near
    np.testing.assert_allclose(got, standardised(jnp.asarray(x)), atol=10 * near)


def test_equal_advantages_become_zero():
    assert not standardised(jnp.full((5, 2), 3.0)).any()
    assert not centred(jnp.full((5, 2), 3.0)).any()


def test_centred_keeps_the_scale():
    # The mean of 1, 2, 3, 6 is 3.
    got = centred(jnp.array([[1.0, 2.0], [3.0, 6.0]]))
    assert got.tolist() == [[-2.0, -1.0], [0.0, 3.0]]
