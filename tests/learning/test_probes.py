"""Probe environments whose values and best actions are known by hand, for every row.

A probe runs episodes of 10 steps with 64 robots; discounts are chosen so that values are small
numbers. Where a value is asserted, its derivation stands beside it.
"""

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from hipshield.learning.catalogue import NAMES, OffPolicy, find_algorithm
from hipshield.learning.collect import Sight, Tally, collect
from hipshield.learning.context import find_context
from hipshield.learning.networks import Critic, Squashed, make_networks
from hipshield.learning.normaliser import normalise
from hipshield.learning.off_policy import OffRecipe, off_policy
from hipshield.learning.on_policy import on_policy
from hipshield.learning.saute import Saute
from hipshield.learning.sro import Sro
from hipshield.learning.state import COST, REWARD
from hipshield.learning.twin_delayed import COST_Q, TwinProblem
from hipshield.learning.update import Recipe
from hipshield.mlp import Mlp

STEPS, ROBOTS = 10, 64


class Out(NamedTuple):
    obs: np.ndarray
    reward: np.ndarray
    cost: np.ndarray


class Probe:
    """One observation in {−1, +1}, drawn anew at each step; one action."""

    robots, actions, observation_size = ROBOTS, 1, 1
    hidden = np.zeros((ROBOTS, 0))

    def __init__(self, reward, cost):
        self.reward, self.cost = reward, cost

    def reset(self, seed):
        self.rng = np.random.default_rng(seed)
        return self._look(np.zeros(ROBOTS), np.zeros(ROBOTS))

    def step(self, actions):
        obs, action = self.obs[:, 0], actions[:, 0]
        return self._look(self.reward(obs, action), self.cost(obs, action))

    def _look(self, reward, cost):
        self.obs = self.rng.choice([-1.0, 1.0], (ROBOTS, 1))
        return Out(self.obs, reward + 0 * self.obs[:, 0], cost + 0 * self.obs[:, 0])


def make_learner(row, sight, probe, epochs, gamma, multiplier_rate=0.035, **changes):
    """Return a learner for the probe's small networks, and how to read it: a state and normalised
    observations ↦ V_R, V_C and the mean action."""
    size = sight.size(probe)
    if isinstance(row, OffPolicy):
        problem = TwinProblem(
            step=replace(row.step, rate=1e-3, batch=64, every=8, tau=0.02),
            policy=Squashed(Mlp((size, 16, 1))),
            critic=Critic(Mlp((size + 1, 16, 1))),
            gamma=gamma,
            cost_gamma=gamma,
            penalty=row.layer.penalty if row.layer else 0.0,
            delta=row.layer.bound(0.0, gamma, STEPS) if row.layer else 0.0,
        )

        def read(state, x):
            mean = problem.policy.apply(state.theta, x)
            pairs = jnp.concatenate([x, mean], axis=1)
            values = [problem.critic.apply(state.critics[i], pairs) for i in (0, COST_Q)]
            return *values, mean

        row = replace(row, step=problem.step)
        return off_policy(OffRecipe(row, problem, (STEPS, ROBOTS), epochs), 0), read

    nets = make_networks(size, 1, (16,))
    recipe = Recipe(
        row,
        nets,
        Sro(**changes),
        gamma=gamma,
        cost_gamma=gamma,
        epochs=2 * epochs,
        multiplier_rate=multiplier_rate,
    )

    def read(state, x):
        values = [nets.critic.apply(state.critics[i], x) for i in (REWARD, COST)]
        return *values, nets.policy.apply(state.theta, x).mean

    return on_policy(recipe, 0), read


class Trained(NamedTuple):
    sight: Sight
    tally: Tally
    metrics: dict
    state: object
    read: object

    def look(self, budget=1.0):
        """V_R, V_C and the mean action for both observations, with a budget where there is one."""
        x = np.array([[-1.0], [1.0]], np.float32)
        if self.sight.saute is not None:
            x = np.concatenate([x, np.full((2, 1), budget, np.float32)], 1)
        value, cost, mean = self.read(self.state, normalise(self.state.normaliser, jnp.asarray(x)))
        return value, cost, mean[:, 0]


def run(algo, probe, epochs, gamma=0.5, **changes):
    row = find_algorithm(algo)
    sight = Sight(find_context("none"), Saute(0.0) if row.saute else None)
    learner, read = make_learner(row, sight, probe, epochs, gamma, **changes)
    state, memory = learner.start(), learner.recall([])
    for epoch in range(epochs):
        pilot = learner.explorer(state)
        batch, tally = collect(probe, pilot, sight, steps=STEPS, seed=0, epoch=epoch)
        memory, improved = learner.improve(state, memory, batch)
        state, metrics = learner.finish(improved)
    return Trained(sight, tally, metrics, state, read)


@pytest.mark.parametrize("algo", NAMES)
def test_values_of_constant_reward_and_cost(algo):
    """r = 1, c = 0.5 for ever, γ = 0.5: V_R = 1/(1 − 0.5) = 2 and V_C = 0.5/(1 − 0.5) = 1.

    That the episodes are cut after 10 steps must not show: they are truncated, not over. With
    Sauté the first cost empties the (zero) budget, so every reward is the penalty of −1: V_R = −2.
    """
    probe = Probe(lambda o, a: 1.0, lambda o, a: 0.5)
    trained = run(algo, probe, 60)
    value, cost, _ = trained.look(budget=-10.0)
    wanted = -2.0 if trained.sight.saute is not None else 2.0
    np.testing.assert_allclose(value, wanted, atol=0.25)
    np.testing.assert_allclose(cost, 1.0, atol=0.15)


@pytest.mark.parametrize("algo", ["ppo", "rcpo", "cpo", "usl"])
def test_values_that_depend_on_the_observation(algo):
    """r = o, c = (o + 1)/2, γ = 0.5; the next o is ±1 with equal chance.

    V_R(o) = o + 0.5 · E[V_R] and E[V_R] = 0, so V_R(±1) = ±1. E[V_C] = 0.5 / (1 − 0.5) = 1, so
    V_C(−1) = 0 + 0.5 · 1 = 0.5 and V_C(1) = 1 + 0.5 = 1.5.
    """
    probe = Probe(lambda o, a: o, lambda o, a: (o + 1) / 2)
    value, cost, _ = run(algo, probe, 120).look()
    np.testing.assert_allclose(value, [-1, 1], atol=0.25)
    np.testing.assert_allclose(cost, [0.5, 1.5], atol=0.25)


@pytest.mark.parametrize("algo", NAMES)
def test_the_best_action_is_found_when_nothing_costs(algo):
    """r = −(a − 0.5 o)²: the best mean is half the observation."""
    probe = Probe(lambda o, a: -((a - 0.5 * o) ** 2), lambda o, a: 0.0)
    _, _, mean = run(algo, probe, 60, gamma=0.0).look()
    np.testing.assert_allclose(mean, [-0.5, 0.5], atol=0.2)


@pytest.mark.parametrize(
    ("algo", "base"),
    [
        *(("ppo-lag", "ppo"), ("trpo-lag", "trpo"), ("rcpo", "npg"), ("cpo", "trpo")),
        *(("cup", "ppo"), ("ppo-saute", "ppo"), ("trpo-saute", "trpo"), ("usl", "td3")),
    ],
)
def test_a_constraint_changes_the_best_action(algo, base):
    """r = a, c = 1 where a > 0: the base goes up, every constrained row stays well below it.

    The multiplier is given a rate at which it matters before the actions are all positive: beyond
    that, no action costs less than another, and there is nothing to learn from.
    """
    probe = Probe(lambda o, a: a, lambda o, a: (a > 0) * 1.0)
    means = {}
    for name in (algo, base):
        means[name] = float(run(name, probe, 40, gamma=0.0, multiplier_rate=0.5).look()[2].mean())
    assert means[base] > 0.5
    assert means[algo] < means[base] - 0.4, means


def test_sro_moves_the_policy_away_from_cost():
    """r = 0, c = 1 where a > 0: only SRO has a reason to move, and moves down."""
    probe = Probe(lambda o, a: 0.0, lambda o, a: (a > 0) * 1.0)
    for estimator in ("density", "average"):
        means = {}
        for weight in (0.0, 1.0):
            trained = run("npg", probe, 30, gamma=0.0, weight=weight, estimator=estimator)
            means[weight] = float(trained.look()[2].mean())
        assert means[1.0] < means[0.0] - 0.3, (estimator, means)


def test_cpo_tells_its_cases():
    """All episodes cost: the constraint is out of reach, and CPO only recovers (case 0)."""
    probe = Probe(lambda o, a: a, lambda o, a: 1.0)
    assert int(run("cpo", probe, 3).metrics["case"]) == 0
    probe = Probe(lambda o, a: a, lambda o, a: 0.0)  # nothing costs, nothing would: case 1
    assert int(run("cpo", probe, 3).metrics["case"]) == 1


def test_usls_layer_makes_proposed_actions_cheaper_and_says_so():
    """r = 2a, c = max(a, 0), γ = 0: the loss −2a + 5 max(a − 0.1, 0) is least at δ = 0.1, which
    noise exceeds half of the time; Q_C = a where that happens, so a correction of 1 to 4 steps of
    0.05 suffices. Episodes cost what Q_C says."""
    probe = Probe(lambda o, a: 2 * a, lambda o, a: np.maximum(a, 0))
    trained = run("usl", probe, 60, gamma=0.0)
    _, cost, mean = trained.look()
    np.testing.assert_allclose(mean, 0.1, atol=0.1)
    np.testing.assert_allclose(cost, 0.1, atol=0.1)
    facts = trained.tally.facts
    assert 0.2 < facts["corrected"] < 0.8
    assert facts["q_cost_executed"] < facts["q_cost_proposed"] - 0.01
    assert facts["corrected"] <= facts["iterations"] <= 4 * facts["corrected"]
    np.testing.assert_allclose(facts["correction"], 0.05 * facts["iterations"], rtol=0.05)
    np.testing.assert_allclose(trained.metrics["cost_to_go"], facts["q_cost_executed"], atol=0.05)
