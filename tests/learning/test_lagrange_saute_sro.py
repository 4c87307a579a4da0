from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from synthetic import NETS, make_case

from hipshield.errors import HipshieldError
from hipshield.learning.lagrange import RATE, START, penalised, update_multiplier
from hipshield.learning.saute import LOWEST, Saute
from hipshield.learning.sro import Sro, q_safe, safety_ratio
from hipshield.learning.state import COST, REWARD, start_state
from hipshield.mlp import Mlp

# --- Lagrange ---------------------------------------------------------------------------------

move = jax.jit(update_multiplier)


def fresh(multiplier=START):
    return start_state(NETS, 0, multiplier)


def run_costs(costs, limit=25.0, multiplier=START):
    state, seen = fresh(multiplier), []
    for cost in costs:
        state = move(state, cost, limit)
        seen.append(float(state.multiplier))
    return seen


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=30), st.floats(0, 100))
def test_multiplier_is_never_negative_and_always_finite(costs, limit):
    seen = run_costs(costs, limit)
    assert min(seen) >= 0 and np.isfinite(seen).all()


@pytest.mark.parametrize("cost", [26.0, 1000.0])
def test_first_step_is_the_rate(cost):
    # Adam's first step is gradient / |gradient| whatever its size, so λ = 0.001 + 0.035.
    assert run_costs([cost]) == pytest.approx([0.036], rel=1e-5)
    assert (RATE, START) == (0.035, 0.001)


def test_three_steps_by_hand():
    # Limit 25; costs 27, 26, 24: gradients of -λ (J - limit) are -2, -1, +1.
    # Means m = 0.9 m + 0.1 g: -0.2, -0.28, -0.152; squares v = 0.999 v + 0.001 g²: 0.004,
    # 0.004996, 0.005991004. Divided by 1 - 0.9^k = 0.1, 0.19, 0.271 and 1 - 0.999^k = 0.001,
    # 0.001999, 0.002997001: steps -2 / √4 = -1; -1.4736842 / √2.4992496 = -0.9321783;
    # -0.5608856 / √1.9989996 = -0.3967044. λ = 0.001 + 0.035 times what they have summed to.
    expected = [0.036, 0.036 + 0.035 * 0.9321783, 0.036 + 0.035 * (0.9321783 + 0.3967044)]
    assert run_costs([27.0, 26.0, 24.0]) == pytest.approx(expected, rel=1e-5)


def test_multiplier_follows_the_cost():
    up = run_costs([30.0] * 20)
    assert up == sorted(up) and up[-1] > 0.5
    down = run_costs([20.0] * 40, multiplier=1.0)
    assert down == sorted(down, reverse=True) and down[-1] == 0.0
    # At the limit nothing moves.
    assert run_costs([25.0] * 3, multiplier=0.5) == [0.5] * 3


def test_a_multiplier_at_zero_can_rise_again():
    seen = run_costs([0.0] * 3 + [100.0] * 10)
    assert seen[:3] == [0.0] * 3 and seen[-1] > 0.0


def test_the_rate_is_the_callers_choice_and_nothing_else_changes():
    before = fresh()
    after = move(before, 100.0, 25.0, 0.5)
    assert float(after.multiplier) == pytest.approx(0.501, rel=1e-5)
    before, after = (s._replace(multiplier=0, multiplier_opt=0) for s in (before, after))
    jax.tree.map(np.testing.assert_array_equal, before, after)


def test_penalised_by_hand():
    # (4 - 3 * 2) / (1 + 3) = -0.5.
    assert float(penalised(jnp.array(4.0), jnp.array(2.0), 3.0)) == -0.5


def test_penalised_without_a_multiplier_is_the_reward_to_the_bit():
    reward, cost = np.random.default_rng(0).normal(size=(2, 1000)).astype(np.float32)
    for zero in (0.0, jnp.zeros(())):
        got = np.asarray(penalised(jnp.asarray(reward), jnp.asarray(cost), zero))
        assert got.tobytes() == reward.tobytes()
    # 1e-6 is seen, so the comparison is not too coarse.
    small = penalised(jnp.asarray(reward), jnp.asarray(cost), 1e-6)
    assert np.asarray(small).tobytes() != reward.tobytes()


def test_a_large_multiplier_leaves_only_the_cost():
    got = penalised(jnp.array([1.0, -1.0]), jnp.array([2.0, 2.0]), 1e6)
    np.testing.assert_allclose(got, [-2.0, -2.0], rtol=1e-5)


# --- Sauté ------------------------------------------------------------------------------------

BUDGET = Saute(budget=25.0, gamma=0.999, penalty=-1.0)
FULL = np.ones(1)


def spend_all(saute, costs, steps=1000):
    z, seen = FULL, []
    for cost in costs:
        z = saute.spend(z, np.array([cost]), steps)
        seen.append(float(z[0]))
    return seen


def test_budget_by_hand():
    # 0.999^1000 = 0.36769542, so d = 25 * (1 - 0.36769542) / 0.001 / 1000 = 15.8076144.
    assert BUDGET.per_step(1000) == pytest.approx(15.8076144, rel=1e-7)
    # One cost of 1: (1 - 1 / 15.8076144) / 0.999 = 0.9367393 / 0.999 = 0.9376770. Then nothing:
    # 0.9376770 / 0.999 = 0.9386156.
    assert spend_all(BUDGET, [1.0, 0.0]) == pytest.approx([0.9376770, 0.9386156], abs=1e-7)
    # Without discount's effect (one step) all of the budget is there: 5 of 20 leave 3/4, / 0.5.
    assert spend_all(Saute(20.0, 0.5), [5.0], steps=1) == pytest.approx([1.5])


def test_an_even_cost_lasts_exactly_the_episode():
    # What d means: 25 spread evenly, 0.025 a step, empties the budget with the last step.
    assert min(spend_all(BUDGET, [0.0249] * 1000)) > 0
    even = spend_all(BUDGET, [0.025] * 1000)
    assert abs(even[-1]) < 1e-9 and min(even[:-1]) > 0
    more = spend_all(BUDGET, [0.0251] * 1000)
    assert more[-1] < 0 < more[950]


def test_robots_have_budgets_of_their_own():
    got = BUDGET.spend(np.array([1.0, 0.5, -1.0]), np.array([0.0, 15.8076144, 0.0]), 1000)
    # 1 / 0.999; (0.5 - 1) / 0.999; -1 / 0.999: what is empty gets emptier.
    np.testing.assert_allclose(got, [1.001001, -0.5005005, -1.001001], atol=1e-6)


@given(st.lists(st.floats(0, 50), min_size=1, max_size=60), st.floats(0, 50))
def test_an_empty_budget_stays_empty(costs, budget):
    seen = spend_all(replace(BUDGET, budget=budget), costs)
    assert np.isfinite(seen).all() and min(seen) >= LOWEST
    empty = [z <= 0 for z in seen]
    assert empty == sorted(empty)


def test_zero_budget_is_emptied_for_good_by_one_cost():
    seen = spend_all(Saute(budget=0.0), [0.0] * 10 + [1.0] + [0.0] * 989)
    assert min(seen[:10]) > 0
    assert seen[10:] == [LOWEST] * 990


@pytest.mark.parametrize("budget", [0.0, 25.0])
def test_zero_cost_never_empties(budget):
    seen = spend_all(replace(BUDGET, budget=budget), [0.0] * 1000)
    # It grows, by 1 / 0.999 a step: at the end 1 / 0.36769542 = 2.7196422.
    assert seen == sorted(seen) and min(seen) > 1
    assert seen[-1] == pytest.approx(2.7196422, rel=1e-6)


def test_shape_by_hand():
    reward = np.array([5.0, 5.0, 5.0, 5.0])
    z = np.array([1.0, 1e-9, 0.0, -3.0])
    assert BUDGET.shape(reward, z).tolist() == [5.0, 5.0, -1.0, -1.0]
    assert Saute(penalty=-7.0).shape(reward, z).tolist() == [5.0, 5.0, -7.0, -7.0]


@pytest.mark.parametrize("bad", [{"budget": -1.0}, {"gamma": 0.0}, {"gamma": 1.0}])
def test_settings_of_saute_are_checked(bad):
    with pytest.raises(HipshieldError, match="budget"):
        Saute(**bad)


# --- SRO --------------------------------------------------------------------------------------

ratio = jax.jit(safety_ratio)
anything = st.floats(width=32)  # infinities and NaN as well
ordinary = st.floats(0, 100, width=32)


@given(arrays(np.float32, (2, 3, 4), elements=anything), arrays(np.float32, 4, elements=anything))
def test_safety_ratio_is_between_minus_one_and_zero_for_all_numbers(pair, v):
    got = np.asarray(ratio(pair[0], pair[1], v, 1e-3))
    assert got.shape == (4,)
    assert ((got >= -1) & (got <= 0)).all()  # false for NaN


@given(arrays(np.float32, (3, 4), elements=ordinary), arrays(np.float32, 4, elements=st.floats(
    -100, 100, width=32)))  # fmt: skip
def test_no_cost_gives_exactly_zero(weights, v):
    """Proposition 1: where Q_C = 0, the regulariser is no more and no less than nothing."""
    got = np.asarray(ratio(weights, np.zeros((3, 4), np.float32), v, 1e-3))
    assert got.tobytes() == np.zeros(4, np.float32).tobytes()  # no -0 either
    # A cost is never negative: a critic's negative value is none.
    got = np.asarray(ratio(weights, -np.ones((3, 4), np.float32), v, 1e-3))
    assert not got.any()


@given(
    arrays(np.float32, (3, 4), elements=ordinary),
    arrays(np.float32, (2, 3, 4), elements=st.floats(-100, 100, width=32)),
    arrays(np.float32, 4, elements=st.floats(-100, 100, width=32)),
)
def test_more_local_cost_is_never_better(weights, pair, v):
    low, high = ratio(weights, pair.min(0), v, 1e-3), ratio(weights, pair.max(0), v, 1e-3)
    assert (np.asarray(high) <= np.asarray(low)).all()


def test_safety_ratio_by_hand():
    # Two local actions. Weights 0.5 and 0.25, Q_C 2 and 4: (1 + 1) / 2 = 1. V_C + ε = 4: -1/4.
    # Second state, Q_C -2 (counts as 0) and 4: (0 + 1) / 2 = 0.5; V_C = -3 counts as 0: 0.5 / 1.
    # Third, Q_C 20 and 40: 10 / 4, cut at -1.
    weights = jnp.array([[0.5, 0.5, 0.5], [0.25, 0.25, 0.25]])
    q = jnp.array([[2.0, -2.0, 20.0], [4.0, 4.0, 40.0]])
    v = jnp.array([3.0, -3.0, 3.0])
    assert safety_ratio(weights, q, v, 1.0).tolist() == [-0.25, -0.5, -1.0]


regularise = jax.jit(q_safe, static_argnums=(0, 1))
DENSITY, AVERAGE = Sro(1.0), Sro(1.0, estimator="average")


def constant(net: Mlp, value):
    """Parameters of a network that is `value` everywhere: all zero but the last bias."""
    return jnp.zeros(net.count).at[-1].set(value)


@pytest.fixture
def known():
    """Q_C = 0.5 and V_C = 0.999 everywhere, V_R = 77; a standard normal policy; actions at 0."""
    state, samples = make_case(0)
    critics = jnp.stack([jnp.zeros(NETS.critic.net.count)] * 2)
    critics = critics.at[REWARD].set(constant(NETS.critic.net, 77.0))
    critics = critics.at[COST].set(constant(NETS.critic.net, 0.999))
    state = state._replace(
        theta=jnp.zeros_like(state.theta),
        critics=critics,
        cost_q=constant(NETS.cost_q.net, 0.5),
        epoch=jnp.asarray(3),
    )
    return state, samples._replace(action=jnp.zeros((96, 2)))


def test_estimators_by_hand(known):
    state, samples = known
    # Average: 0.5 / (0.999 + 0.001) = 0.5, wherever the local actions are.
    average = regularise(AVERAGE, NETS, state, samples, jax.random.key(0))
    np.testing.assert_allclose(average, np.full(96, -0.5), rtol=1e-5)
    # Density: the same times π(a_j | s). A standard normal's density, seen from 0 with a spread
    # of 0.1, is on average that of variance 1.01 at 0: 1 / (2π * 1.01) = 0.1575791; so -0.0787895.
    density = regularise(DENSITY, NETS, state, samples, jax.random.key(0))
    # Ten samples of exp(-|a|² / 2) = 1 - 0.01 ± 0.01: 0.3 % in each row, 0.03 % in the mean of 96.
    np.testing.assert_allclose(density, np.full(96, -0.0787895), rtol=0.02)
    assert float(density.mean()) == pytest.approx(-0.0787895, rel=0.002)
    assert len(set(density.tolist())) > 90  # every row has its own local actions
    # The middle of the density alone, 1 / (2π), would not pass.
    assert float(density.mean()) != pytest.approx(-0.5 / (2 * np.pi), rel=0.002)


@pytest.mark.parametrize("sro", [DENSITY, AVERAGE])
def test_q_safe_agrees_with_its_definition(sro):
    """Critics with something in them, and the mean over local actions written out."""
    state, samples = make_case(1)
    critics = state.critics.at[COST, -1].add(2.0)
    state = state._replace(epoch=jnp.asarray(1), cost_q=2 * state.cost_q, critics=critics)
    key = jax.random.key(5)
    got = regularise(sro, NETS, state, samples, key)
    law = NETS.policy.apply(state.theta, samples.x)
    v = np.asarray(NETS.critic.apply(state.critics[1], samples.x), float)
    total = np.zeros(96)
    for j in range(10):
        drawn = jax.random.normal(jax.random.fold_in(key, j), (96, 2))
        action = samples.action + 0.1 * drawn
        q = NETS.cost_q.apply(state.cost_q, jnp.concatenate([samples.x, action], 1))
        weight = np.exp(law.log_prob(action)) if sro is DENSITY else 1.0
        total += weight * np.maximum(np.asarray(q, float), 0) / 10
    expected = -np.clip(total / (np.maximum(v, 0) + 1e-3), 0, 1)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert ((expected < 0) & (expected > -1)).sum() > 20 and np.ptp(expected) > 0.01


@pytest.mark.parametrize("sro", [DENSITY, AVERAGE])
def test_q_safe_is_nothing_before_anything_is_known(known, sro):
    state, samples = known
    key = jax.random.key(0)
    assert (regularise(sro, NETS, state, samples, key) < 0).all()
    free = samples._replace(episode_cost=jnp.zeros(()))
    assert not regularise(sro, NETS, state, free, key).any()
    first = state._replace(epoch=jnp.asarray(0))
    assert not regularise(sro, NETS, first, samples, key).any()
    # Not even a broken critic matters then.
    broken = state._replace(cost_q=jnp.full_like(state.cost_q, jnp.nan))
    assert not regularise(sro, NETS, broken, free, key).any()


def test_no_gradient_flows_through_q_safe(known):
    state, samples = known

    def total(theta, critics, cost_q):
        now = state._replace(theta=theta, critics=critics, cost_q=cost_q)
        return q_safe(DENSITY, NETS, now, samples, jax.random.key(0)).sum()

    leaves = state.theta, state.critics, state.cost_q
    value, gradients = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2)))(*leaves)
    assert float(value) < 0
    assert not any(g.any() for g in gradients)
    # Inside it is differentiable, so what stops the gradient is the stop.
    inside = jax.grad(lambda q: safety_ratio(jnp.ones((1, 1)), q, jnp.ones(1), 0.0).sum())
    assert float(inside(jnp.full((1, 1), 0.5))[0, 0]) == -1.0


def test_q_safe_depends_on_its_key_alone(known):
    state, samples = known
    first, again, other = (
        np.asarray(regularise(DENSITY, NETS, state, samples, jax.random.key(k))) for k in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).sum() > 90


@pytest.mark.parametrize(("bad", "message"), [
    ({"weight": -0.1}, "zero or more"),
    ({"weight": float("nan")}, "zero or more"),
    ({"samples": 0}, "samples"),
    ({"sigma": 0.0}, "sigma"),
    ({"epsilon": 0.0}, "epsilon"),
    ({"estimator": "densty"}, "Did you mean 'density'"),
])  # fmt: skip
def test_settings_of_sro_are_checked(bad, message):
    with pytest.raises(HipshieldError, match=message):
        Sro(**bad)
