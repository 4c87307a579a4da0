from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from synthetic import (
    POLICY,
    distance64,
    fisher64,
    gradient64,
    make_case,
    policy64,
    surrogate64,
    take,
)

from hipshield.learning.networks import Gaussian, kl
from hipshield.learning.policy_steps import (
    Clipped,
    Natural,
    Problem,
    all_rows,
    clipped_loss,
    ratio,
    surrogate,
)

FAST = Clipped(passes=6, batch=32, rate=1e-2, target_kl=0.05)


def gaussian64(seed, rows=5):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(rows, 2)), draw.uniform(-1.5, 1, 2), draw.normal(size=(rows, 2))


@given(st.integers(0, 10**6))
def test_log_prob_and_entropy_agree_with_scipy(seed):
    mean, log_std, action = gaussian64(seed)
    law = scipy.stats.norm(mean, np.exp(log_std))
    got = Gaussian(jnp.asarray(mean, jnp.float32), jnp.asarray(log_std, jnp.float32))
    log_prob = got.log_prob(jnp.asarray(action, jnp.float32))
    assert log_prob.shape == got.entropy().shape == (5,)
    np.testing.assert_allclose(log_prob, law.logpdf(action).sum(-1), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(got.entropy(), law.entropy().sum(-1), rtol=1e-5, atol=1e-5)


def test_log_prob_and_entropy_by_hand():
    # Standard normal at 0 in two dimensions: -2 * log(2π) / 2 = -1.8378771; at (1, 2) less 5 / 2.
    standard = Gaussian(jnp.zeros(2), jnp.zeros(2))
    assert float(standard.log_prob(jnp.zeros(2))) == pytest.approx(-1.8378771)
    assert float(standard.log_prob(jnp.array([1.0, 2.0]))) == pytest.approx(-4.3378771)
    # Entropy: 2 * (1 + log 2π) / 2 = 2.8378771, plus log σ of each dimension.
    assert float(standard.entropy()) == pytest.approx(2.8378771)
    wider = Gaussian(jnp.zeros(2), jnp.array([0.25, 0.5]))
    assert float(wider.entropy()) == pytest.approx(3.5878771)


def test_kl_by_hand():
    # σ = 1 both, means 2 apart: 2² / 2 = 2.
    p, q = Gaussian(jnp.zeros(1), jnp.zeros(1)), Gaussian(jnp.full(1, 2.0), jnp.zeros(1))
    assert kl(p, q).tolist() == [2.0]
    # From σ = 1 to σ = 2: log 2 + 1 / 8 - 1 / 2 = 0.3181472; back: -log 2 + 4 / 2 - 1 / 2.
    wide = Gaussian(jnp.zeros(1), jnp.log(jnp.full(1, 2.0)))
    assert kl(p, wide).tolist() == pytest.approx([0.3181472])
    assert kl(wide, p).tolist() == pytest.approx([0.8068528])


@pytest.mark.parametrize("seed", range(3))
def test_kl_agrees_with_monte_carlo(seed):
    mean, log_std, other = gaussian64(seed, rows=1)
    p = Gaussian(jnp.asarray(mean[0]), jnp.asarray(log_std))
    q = Gaussian(jnp.asarray(other[0]), jnp.asarray(log_std[::-1] + 0.3))
    draws = np.random.default_rng(seed).normal(size=(200_000, 2))
    actions = mean[0] + np.exp(log_std) * draws
    first = scipy.stats.norm(mean[0], np.exp(log_std)).logpdf(actions)
    second = scipy.stats.norm(other[0], np.exp(log_std[::-1] + 0.3)).logpdf(actions)
    each = first - second
    # Four standard errors: a right KL is outside once in 16 000 seeds, and the seed is fixed.
    band = 4 * each.std(0) / np.sqrt(len(each))
    assert (np.abs(kl(p, q) - each.mean(0)) < band).all()
    # The band is narrow enough to see which of the two comes first.
    assert (np.abs(kl(q, p) - each.mean(0)) > band).all()


@given(st.integers(0, 10**6))
def test_kl_is_zero_only_between_equals(seed):
    mean, log_std, _ = (jnp.asarray(part, jnp.float32) for part in gaussian64(seed))
    p = Gaussian(mean, log_std)
    assert not kl(p, p).any()
    for sign in (-1, 1):
        assert (kl(p, Gaussian(mean + 0.1 * sign, log_std)) > 0).all()
        assert (kl(p, Gaussian(mean, log_std + 0.1 * sign)) > 0).all()


def test_samples_have_the_mean_and_the_spread():
    law = Gaussian(jnp.tile(jnp.array([1.0, -2.0]), (40_000, 1)), jnp.array([0.0, -1.0]))
    got = np.asarray(law.sample(jax.random.key(0)), float)
    spread = np.exp([0.0, -1.0])
    # Four standard errors of a mean, σ / √n, and of a spread, σ / √(2n).
    assert (np.abs(got.mean(0) - [1.0, -2.0]) < 4 * spread / 200).all()
    assert (np.abs(got.std(0) - spread) < 4 * spread / np.sqrt(80_000)).all()
    assert abs(np.corrcoef(got.T)[0, 1]) < 4 / 200


def make_problem(samples):
    return Problem(POLICY, samples, samples.reward_advantage, 0.0, 0.0, jax.random.key(0), 1.0)


def test_ratio_and_surrogate_agree_with_a_float64_reference():
    state, samples = make_case(0)
    problem = make_problem(samples)
    np.testing.assert_allclose(ratio(POLICY, state.theta, samples), 1.0, atol=1e-5)
    moved = state.theta + 0.2 * jax.random.normal(jax.random.key(1), state.theta.shape)
    expected = surrogate64(moved, samples, samples.reward_advantage)
    got = float(surrogate(problem, moved, samples.reward_advantage))
    assert got == pytest.approx(expected, rel=1e-4)
    # Where the policy has not moved, the surrogate is the mean advantage, which is zero.
    assert abs(surrogate64(state.theta, samples, samples.reward_advantage)) < 1e-6 < abs(got)


def test_clipped_loss_agrees_with_a_loop():
    state, samples = make_case(0)
    loss = jax.jit(clipped_loss(0.2, POLICY))
    moved = state.theta + 0.2 * jax.random.normal(jax.random.key(1), state.theta.shape)
    rows = jnp.array([3, 14, 15, 9, 2, 6, 5])
    r = np.asarray(ratio(POLICY, moved, samples), float)
    advantage = np.asarray(samples.reward_advantage, float)
    terms = [min(r[i] * advantage[i], np.clip(r[i], 0.8, 1.2) * advantage[i]) for i in rows]
    part = jax.tree.map(lambda v: v[rows], all_rows(samples, samples.reward_advantage))
    assert float(loss(moved, part)) == pytest.approx(-np.mean(terms), rel=1e-5)
    assert (np.abs(r[rows] - 1) > 0.2).any() and (np.abs(r[rows] - 1) < 0.2).any()


@jax.jit
def clipped_gradient(theta, samples, advantage):
    part = jax.tree.map(lambda v: v[:10], all_rows(samples, advantage))
    return jax.grad(clipped_loss(0.2, POLICY))(theta, part)


@pytest.mark.parametrize(("log_ratio", "advantage", "moves"), [
    (0.3, 1.0, False),  # e^0.3 = 1.35 > 1.2 already, and better than average: enough
    (0.3, -1.0, True),  # worse than average: back
    (-0.3, 1.0, True),  # e^-0.3 = 0.74 < 0.8, better: more of it
    (-0.3, -1.0, False),
    (0.1, 1.0, True),  # e^0.1 = 1.11, inside
])  # fmt: skip
def test_clipping_stops_the_gradient_only_outwards(log_ratio, advantage, moves):
    state, samples = make_case(0)
    # A lower probability then means a higher ratio now.
    samples = samples._replace(log_prob=samples.log_prob - log_ratio)
    gradient = clipped_gradient(state.theta, samples, np.full(96, advantage, np.float32))
    assert bool(np.asarray(gradient).any()) == moves


def natural_reference(state, samples, target_kl, damping):
    """The natural step in float64: gradient and Fisher matrix by differences, a direct solve."""
    theta = np.asarray(state.theta, float)
    g = gradient64(lambda t: surrogate64(t, samples, samples.reward_advantage), theta)
    matrix = fisher64(theta, samples.x) + damping * np.eye(len(theta))
    x = np.linalg.solve(matrix, g)
    return x * np.sqrt(2 * target_kl / (g @ x))


@pytest.mark.parametrize("seed", range(3))
def test_natural_step_agrees_with_a_float64_reference(seed):
    step = Natural(target_kl=1e-4, iterations=30)
    state, samples = make_case(seed)
    new, metrics = take(step, state, samples)
    got = np.asarray(new.theta, float) - np.asarray(state.theta, float)
    expected = natural_reference(state, samples, step.target_kl, step.damping)
    assert np.linalg.norm(got - expected) < 0.01 * np.linalg.norm(expected)
    # Three iterations are too few to pass.
    rough, _ = take(replace(step, iterations=3), state, samples)
    gap = np.asarray(rough.theta, float) - np.asarray(state.theta, float) - expected
    assert np.linalg.norm(gap) > 0.01 * np.linalg.norm(expected)
    # It is uphill, and the metrics tell what happened.
    a = samples.reward_advantage
    assert surrogate64(new.theta, samples, a) > surrogate64(state.theta, samples, a) + 1e-4
    distance = distance64(state.theta, new.theta, samples.x) / 2
    assert float(metrics["kl"]) == pytest.approx(distance, rel=0.02)
    assert int(metrics["trial"]) == 1


@pytest.mark.parametrize("seed", range(3))
def test_natural_step_moves_by_the_target_kl(seed):
    # The target is half the step's quadratic form, of which damping d takes d |step|² / 2. To
    # first order in the step's length the rest is its KL: the smaller, the closer.
    state, samples = make_case(seed)

    def spent(target, damping):
        new, _ = take(Natural(target_kl=target, iterations=40, damping=damping), state, samples)
        length = np.asarray(new.theta, float) - np.asarray(state.theta, float)
        distance = distance64(state.theta, new.theta, samples.x) / 2
        return distance / target, damping * length @ length / 2 / target

    for damping in (0.1, 0.01):
        moved, lost = spent(1e-5, damping)
        assert moved + lost == pytest.approx(1.0, abs=0.006)
    assert spent(1e-5, 0.01)[0] > spent(1e-5, 0.1)[0] + 0.05
    assert spent(1e-5, 0.01)[0] == pytest.approx(1.0, abs=0.06)
    # A large step shows that the comparison is not true by construction.
    assert abs(sum(spent(0.5, 0.1)) - 1.0) > 0.01


@pytest.mark.parametrize("target", [0.01, 0.5])
def test_line_search_keeps_to_the_kl_and_never_gets_worse(target):
    bound = target * (1 + 1e-4) + 1e-6  # rounding of float32
    plain_is_beyond, shortened = 0, 0
    for seed in range(6):
        state, samples = make_case(seed)
        new, metrics = take(Natural(target_kl=target, search=True), state, samples)
        assert distance64(state.theta, new.theta, samples.x) / 2 <= bound
        a = samples.reward_advantage
        gained = surrogate64(new.theta, samples, a) - surrogate64(state.theta, samples, a)
        assert gained > 1e-3 and int(metrics["trial"]) >= 1
        plain, _ = take(Natural(target_kl=target), state, samples)
        # The search shortens the plain step and does not turn it.
        step, whole = new.theta - state.theta, plain.theta - state.theta
        fraction = 0.8 ** (int(metrics["trial"]) - 1)
        np.testing.assert_allclose(step, fraction * whole, atol=1e-5)
        plain_is_beyond += distance64(state.theta, plain.theta, samples.x) / 2 > bound
        shortened += fraction < 1
    assert shortened >= plain_is_beyond
    if target == 0.5:
        assert plain_is_beyond > 0  # the search had something to do


@pytest.mark.parametrize("search", [False, True])
def test_natural_step_without_advantage_stays(search):
    state, samples = make_case(0)
    new, metrics = take(Natural(search=search), state, samples, jnp.zeros(96))
    np.testing.assert_array_equal(new.theta, state.theta)
    assert float(metrics["kl"]) == 0.0
    # A tiny advantage is still too little to divide by.
    tiny, _ = take(Natural(search=search), state, samples, 1e-9 * samples.reward_advantage)
    np.testing.assert_allclose(tiny.theta, state.theta, atol=1e-3)


@pytest.mark.parametrize("search", [False, True])
def test_natural_step_stays_when_numbers_fail(search):
    state, samples = make_case(0)
    new, metrics = take(Natural(search=search), state, samples, jnp.full(96, jnp.nan))
    np.testing.assert_array_equal(new.theta, state.theta)
    assert int(metrics["trial"]) == 0


def test_natural_step_leaves_everything_else_alone():
    state, samples = make_case(0)
    new, _ = take(Natural(), state, samples)
    before, after = state._replace(theta=0), new._replace(theta=0)
    jax.tree.map(np.testing.assert_array_equal, before, after)
    assert (new.theta != state.theta).any()


def test_clipped_step_improves_and_reports_its_kl():
    state, samples = make_case(0)
    new, metrics = take(FAST, state, samples)
    a = samples.reward_advantage
    assert surrogate64(new.theta, samples, a) > surrogate64(state.theta, samples, a) + 0.01
    # Its KL is summed over action dimensions.
    distance = distance64(state.theta, new.theta, samples.x)
    assert float(metrics["kl"]) == pytest.approx(distance, rel=1e-3)


def test_clipped_step_stops_after_the_pass_that_went_too_far():
    state, samples = make_case(0)
    _, metrics = take(FAST, state, samples)
    passes = int(metrics["passes"])
    assert 1 < passes < FAST.passes
    assert float(metrics["kl"]) > FAST.target_kl
    # One pass less is the same path, not yet beyond the target.
    _, before = take(replace(FAST, passes=passes - 1), state, samples)
    assert int(before["passes"]) == passes - 1
    assert float(before["kl"]) <= FAST.target_kl
    # With the target out of reach it makes all passes, with one of zero a single one.
    _, metrics = take(replace(FAST, target_kl=1e9), state, samples)
    assert int(metrics["passes"]) == FAST.passes
    _, metrics = take(replace(FAST, target_kl=0.0), state, samples)
    assert int(metrics["passes"]) == 1


def test_clipped_step_without_advantage_stays():
    state, samples = make_case(0)
    new, metrics = take(FAST, state, samples, jnp.zeros(96))
    np.testing.assert_array_equal(new.theta, state.theta)
    assert (float(metrics["kl"]), int(metrics["passes"])) == (0.0, FAST.passes)


def test_clipped_step_takes_adam_steps_of_its_rate():
    # Adam's first step is the rate in every coordinate whose gradient is not about zero. One pass
    # of one minibatch is one step.
    state, samples = make_case(0)
    one = Clipped(passes=1, batch=96, rate=1e-3, decay=True)
    new, _ = take(one, state, samples)
    moved = np.abs(np.asarray(new.theta - state.theta))
    assert np.median(moved) == pytest.approx(1e-3, rel=1e-3)
    assert moved.max() < 1.001e-3
    # Half the run to come: half the rate; at its end none. Without `decay` the run does not matter.
    half, _ = take(one, state, samples, share=0.5)
    np.testing.assert_allclose(half.theta - state.theta, (new.theta - state.theta) / 2, atol=1e-6)
    end, _ = take(one, state, samples, share=0.0)
    np.testing.assert_array_equal(end.theta, state.theta)
    steady = replace(one, decay=False)
    for share in (0.0, 1.0):
        got, _ = take(steady, state, samples, share=share)
        np.testing.assert_array_equal(got.theta, new.theta)


def test_clipped_step_depends_on_its_key_only_through_the_shuffle():
    state, samples = make_case(0)
    first, again, other = (take(FAST, state, samples, key=k)[0].theta for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    whole = replace(FAST, batch=96, passes=2)  # one minibatch holds everything
    first, other = (take(whole, state, samples, key=k)[0].theta for k in (0, 1))
    np.testing.assert_allclose(first, other, atol=1e-4)


def test_the_float64_policy_is_the_policy():
    """Every comparison above rests on it."""
    state, samples = make_case(0)
    theta = state.theta.at[-2:].set(jnp.array([-0.5, 0.25]))
    got, (mean, log_std) = POLICY.apply(theta, samples.x), policy64(theta, samples.x)
    np.testing.assert_allclose(got.mean, mean, atol=1e-6)
    np.testing.assert_array_equal(got.log_std, log_std)
