from dataclasses import replace

import numpy as np
import pytest
from synthetic import distance64, make_case, surrogate64, take

from hipshield.learning.cup import ImproveThenProject
from hipshield.learning.policy_steps import Clipped

IMPROVE = Clipped(passes=20, batch=32, rate=3e-3, target_kl=0.5)
CUP = ImproveThenProject(IMPROVE, gamma=0.5, lam=0.5)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_multiplier_the_projection_stays(seed):
    """Only the KL to the improved policy is left, and Adam's momentum, which it turns back."""
    state, samples = make_case(seed)
    improved, _ = take(IMPROVE, state, samples)
    new, metrics = take(CUP, state, samples, multiplier=0.0)
    stayed = distance64(new.theta, improved.theta, samples.x)
    moved = distance64(improved.theta, state.theta, samples.x)
    assert stayed < 0.02 * moved
    assert int(metrics["projection_passes"]) == IMPROVE.passes
    # The measure can tell: with a multiplier it goes away by more than that.
    away, _ = take(CUP, state, samples, multiplier=1.0)
    assert distance64(away.theta, improved.theta, samples.x) > 0.1 * moved


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("angle", [0.5, 1.57])
def test_a_larger_multiplier_buys_a_lower_cost(seed, angle):
    state, samples = make_case(seed, angle=angle)
    costs = [
        surrogate64(new.theta, samples, samples.cost_advantage)
        for new, _ in (take(CUP, state, samples, multiplier=m) for m in (0.0, 0.1, 1.0))
    ]
    assert costs[0] > costs[1] + 0.01 > costs[2] + 0.02


def test_cost_that_reward_brings_is_given_back():
    """At angle 0.5, what pays also costs: improving raises the cost, projecting lowers it."""
    state, samples = make_case(0, angle=0.5)
    improved, _ = take(IMPROVE, state, samples)
    new, _ = take(CUP, state, samples, multiplier=1.0)
    before, halfway, after = (
        surrogate64(theta, samples, samples.cost_advantage)
        for theta in (state.theta, improved.theta, new.theta)
    )
    assert halfway > before + 0.01
    assert after < halfway - 0.01


def test_the_first_half_is_ppo():
    state, samples = make_case(0)
    _, alone = take(IMPROVE, state, samples)
    _, both = take(CUP, state, samples, multiplier=1.0)
    assert float(both["kl"]) == pytest.approx(float(alone["kl"]), rel=1e-5)
    assert int(both["passes"]) == int(alone["passes"])


def test_the_cost_weight_by_hand():
    # λ (1 - γ λ_GAE) / (1 - γ): at γ = λ_GAE = 1/2, (1 - 1/4) / (1/2) = 1.5, so a multiplier of 2
    # is one of 3 at γ = 0, where the factor is 1.
    state, samples = make_case(0)
    none = replace(CUP, gamma=0.0)
    got, _ = take(CUP, state, samples, multiplier=2.0)
    expected, _ = take(none, state, samples, multiplier=3.0)
    np.testing.assert_allclose(got.theta, expected.theta, atol=1e-6)
    other, _ = take(none, state, samples, multiplier=2.0)
    assert np.abs(got.theta - other.theta).max() > 1e-4


def test_projection_stops_at_its_kl_too():
    state, samples = make_case(0)
    _, metrics = take(CUP, state, samples, multiplier=5.0)
    assert float(metrics["projection_kl"]) > IMPROVE.target_kl
    assert int(metrics["projection_passes"]) < int(metrics["passes"]) == IMPROVE.passes


def test_at_the_end_of_the_run_nothing_moves():
    state, samples = make_case(0)
    new, _ = take(CUP, state, samples, multiplier=1.0, share=0.0)
    np.testing.assert_array_equal(new.theta, state.theta)


def test_without_decay_the_share_of_the_run_does_not_matter():
    state, samples = make_case(0)
    step = ImproveThenProject(replace(IMPROVE, decay=False))
    late, _ = take(step, state, samples, multiplier=1.0, share=0.25)
    early, _ = take(step, state, samples, multiplier=1.0, share=1.0)
    np.testing.assert_array_equal(late.theta, early.theta)
