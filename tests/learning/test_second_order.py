import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import POLICY, fisher64, make_case

from hipshield.learning.second_order import conjugate_gradient, fisher_product, line_search

SIZE = 8
UNIT = jnp.array([1.0])


@jax.jit
def columns(theta, x, damping):
    return jax.lax.map(fisher_product(POLICY, theta, x, damping), jnp.eye(len(theta)))


def as_matrix(theta, x, damping):
    return np.asarray(columns(theta, x, damping), float).T


@pytest.fixture(scope="module")
def curved():
    """A policy whose spreads are neither 1 nor equal, states, and its Fisher matrix in float64."""
    state, samples = make_case(0)
    theta = state.theta.at[-2:].set(jnp.array([-0.7, 0.4]))
    return theta, samples.x, fisher64(theta, samples.x)


def test_fisher_product_is_the_hessian_of_the_mean_kl(curved):
    theta, x, expected = curved
    got = as_matrix(theta, x, 0.0)
    # Differences with h = 1e-3 leave an error of about h² of the KL's fourth derivatives.
    np.testing.assert_allclose(got, expected, atol=2e-4)
    assert np.abs(expected).max() > 0.5
    # The tolerance would tell a sum over the two actions from their mean, and a wrong spread.
    assert not np.allclose(2 * got, expected, atol=2e-4)
    assert not np.allclose(as_matrix(theta.at[-1].add(0.01), x, 0.0), expected, atol=2e-4)


def test_spreads_by_hand(curved):
    # KL of spreads e^l and e^(l + d) is (e^(-2d) - 1) / 2 + d, whose second derivative at 0 is 2;
    # averaged over two actions, 1.
    theta, x, _ = curved
    got = as_matrix(theta, x, 0.0)
    np.testing.assert_allclose(got[-2:, -2:], np.eye(2), atol=1e-6)
    assert not got[:-2, -2:].any() and not got[-2:, :-2].any()


def test_fisher_matrix_is_symmetric_and_damping_makes_it_definite(curved):
    theta, x, _ = curved
    plain, damped = as_matrix(theta, x, 0.0), as_matrix(theta, x, 0.1)
    np.testing.assert_allclose(plain, plain.T, atol=1e-6)
    assert np.linalg.eigvalsh(plain).min() > -1e-6
    assert np.linalg.eigvalsh(damped).min() > 0.1 - 1e-5
    np.testing.assert_allclose(damped - plain, 0.1 * np.eye(len(theta)), atol=1e-6)


@pytest.fixture(scope="module")
def solve():
    """Conjugate gradients on a matrix, compiled once for each number of steps."""

    def run(matrix, b, steps, enough):
        return conjugate_gradient(lambda v: matrix @ v, b, steps, enough)

    compiled = jax.jit(run, static_argnums=2)
    return lambda matrix, b, steps=3 * SIZE, enough=1e-10: np.asarray(
        compiled(jnp.asarray(matrix, jnp.float32), jnp.asarray(b, jnp.float32), steps, enough),
        float,
    )


def draw_system(seed, decades):
    """Draw a positive definite matrix with eigenvalues from 1 down to 10^-decades, and b."""
    draw = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(draw.normal(size=(SIZE, SIZE)))
    matrix = (turn * 10 ** -np.linspace(0, decades, SIZE)) @ turn.T
    matrix = matrix.astype(np.float32).astype(float)  # the system that float32 sees
    return (matrix + matrix.T) / 2, draw.normal(size=SIZE).astype(np.float32).astype(float)


@given(st.integers(0, 10**6), st.floats(0, 2))
def test_conjugate_gradient_solves(solve, seed, decades):
    matrix, b = draw_system(seed, decades)
    expected = np.linalg.solve(matrix, b)
    got = solve(matrix, b)
    # Condition 100 times float32's 1e-7 and a little; and r·r = 1e-10 is an r of 1e-5.
    assert np.linalg.norm(got - expected) < 2e-3 * np.linalg.norm(expected)


def test_too_few_steps_do_not_solve(solve):
    matrix, b = draw_system(0, 2)
    expected = np.linalg.solve(matrix, b)
    errors = [np.linalg.norm(solve(matrix, b, k) - expected) for k in (1, 4, 3 * SIZE)]
    assert errors[0] > errors[1] > 10 * errors[2]
    assert errors[1] > 0.02 * np.linalg.norm(expected)


def test_two_eigenvalues_take_two_steps(solve):
    # The method is exact after as many steps as there are different eigenvalues.
    matrix, b = np.diag([1.0] * 4 + [4.0] * 4), np.arange(1.0, 9.0)
    expected = b / np.diag(matrix)
    np.testing.assert_allclose(solve(matrix, b, 2), expected, rtol=1e-5)
    assert np.abs(solve(matrix, b, 1) - expected).max() > 0.1


@given(st.integers(0, 10**6), st.floats(3, 12))
def test_ill_conditioned_systems_stay_bounded(solve, seed, decades):
    matrix, b = draw_system(seed, decades)
    matrix = matrix + 1e-6 * np.eye(SIZE)  # rounding to float32 may have made it indefinite
    got = solve(matrix, b, 200)
    assert np.isfinite(got).all()
    # Iterates grow towards the solution and never (but for rounding) past it; and each lowers
    # x·Ax / 2 - b·x, which is 0 at the start.
    assert np.linalg.norm(got) < 1.5 * np.linalg.norm(b) / np.linalg.eigvalsh(matrix).min()
    assert got @ matrix @ got / 2 - b @ got < 0


def test_no_right_hand_side_gives_exactly_nothing(solve):
    matrix, _ = draw_system(0, 2)
    assert not solve(matrix, np.zeros(SIZE)).any()


def test_once_solved_further_steps_change_nothing(solve):
    matrix, b = draw_system(1, 1)
    early, late = solve(matrix, b, 3 * SIZE, 1e-6), solve(matrix, b, 500, 1e-6)
    np.testing.assert_array_equal(early, late)
    # What counts as solved is the caller's choice.
    assert not solve(matrix, b, 500, 1e6).any()
    loose = np.linalg.norm(solve(matrix, b, 500, 0.1) - early)
    assert 1e-3 < loose < np.linalg.norm(early)


@pytest.fixture(scope="module")
def search():
    """A search along a line of numbers for one below a bound, and the numbers that it tried."""
    seen = []

    @jax.jit
    def run(bound, trials, decay, theta, step):
        def good(t):
            jax.debug.callback(lambda value: seen.append(float(value)), t[0])
            return t[0] < bound

        return line_search(theta * UNIT, step * UNIT, good, trials, decay)

    def start(bound, trials=15, decay=0.8, theta=0.0, step=1.0):
        seen.clear()
        got = run(bound, trials, decay, theta, step)
        jax.effects_barrier()
        return (float(got.theta[0]), float(got.fraction), int(got.trial)), list(seen)

    return start


def test_the_whole_step_if_it_is_good(search):
    assert search(1.5) == ((1.0, 1.0, 1), [1.0])


@pytest.mark.parametrize("trial", range(1, 16))
def test_the_first_good_trial_is_taken(search, trial):
    # From 0 along 1, trial k is at 0.8^(k-1).
    (theta, fraction, number), seen = search(1.1 * 0.8 ** (trial - 1))
    assert number == trial
    assert fraction == theta == pytest.approx(0.8 ** (trial - 1), rel=1e-6)
    assert seen == pytest.approx(0.8 ** np.arange(trial), rel=1e-6)


def test_halving_by_hand(search):
    # From 3 along 8, halved: 11, 7, 5, 4. The first below 4.5 is the fourth, 3 + 8 / 8.
    got, seen = search(4.5, decay=0.5, theta=3.0, step=8.0)
    assert (got, seen) == ((4.0, 0.125, 4), [11.0, 7.0, 5.0, 4.0])
    # Trials beyond the last are not made.
    got, seen = search(4.5, 3, 0.5, 3.0, 8.0)
    assert (got, seen) == ((3.0, 0.0, 0), [11.0, 7.0, 5.0])


def test_the_point_taken_is_the_point_tried(search):
    """Computed twice in two ways, it could miss the bound it was tried against by a rounding."""
    for trial in range(1, 16):
        got, seen = search(0.1 + 1.1 * 0.7 ** (trial - 1) / 3, 15, 0.7, 0.1, 1 / 3)
        assert got[2] == len(seen) == trial
        assert got[0] == seen[-1]


def test_nothing_good_leaves_theta_to_the_bit():
    theta = jax.random.normal(jax.random.key(0), (9,))
    refuse = jax.jit(lambda step: line_search(theta, step, lambda t: jnp.zeros((), bool)))
    for number in (1.0, np.nan, np.inf):
        got = refuse(jnp.full(9, number))
        np.testing.assert_array_equal(got.theta, theta)
        assert (float(got.fraction), int(got.trial)) == (0.0, 0)


def test_a_step_of_nan_is_never_good():
    theta = jax.random.normal(jax.random.key(0), (9,))
    step = jnp.ones(9).at[4].set(jnp.nan)
    run = jax.jit(lambda step: line_search(theta, step, lambda t: t.sum() > -1e9))
    got = run(step)
    np.testing.assert_array_equal(got.theta, theta)
    assert int(got.trial) == 0
    # The same test accepts the step without the NaN.
    assert int(run(jnp.ones(9)).trial) == 1
