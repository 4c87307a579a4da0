"""Probe environments whose values and best actions are known by hand, for every row.

A probe runs episodes of 10 steps with 64 robots; discounts are chosen so that values are small
numbers. Where a value is asserted, its derivation stands beside it.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from hipshield.learning.catalogue import NAMES, find_algorithm
from hipshield.learning.collect import Sight, collect
from hipshield.learning.context import find_context
from hipshield.learning.lagrange import START
from hipshield.learning.networks import make_networks
from hipshield.learning.normaliser import normalise
from hipshield.learning.saute import Saute
from hipshield.learning.sro import Sro
from hipshield.learning.state import COST, REWARD, start_state
from hipshield.learning.update import Recipe, update

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


def run(algo, probe, epochs, gamma=0.5, multiplier_rate=0.035, **changes):
    row = find_algorithm(algo)
    sight = Sight(find_context("none"), Saute(0.0) if row.saute else None)
    nets = make_networks(sight.size(probe), 1, (16,))
    recipe = Recipe(
        row,
        nets,
        Sro(**changes),
        gamma=gamma,
        cost_gamma=gamma,
        epochs=2 * epochs,
        multiplier_rate=multiplier_rate,
    )
    state = start_state(nets, 0, START)
    for _ in range(epochs):
        batch, tally = collect(probe, nets.policy, state, sight, steps=STEPS, seed=0)
        state, metrics = update(recipe, state, batch, 0)
    return state, nets, sight, tally, metrics


def seen(state, sight, budget=1.0):
    """Both observations as the networks see them, with a full budget where there is one."""
    x = np.array([[-1.0], [1.0]], np.float32)
    if sight.saute is not None:
        x = np.concatenate([x, np.full((2, 1), budget, np.float32)], 1)
    return normalise(state.normaliser, jnp.asarray(x))


@pytest.mark.parametrize("algo", NAMES)
def test_values_of_constant_reward_and_cost(algo):
    """r = 1, c = 0.5 for ever, γ = 0.5: V_R = 1/(1 − 0.5) = 2 and V_C = 0.5/(1 − 0.5) = 1.

    That the episodes are cut after 10 steps must not show: they are truncated, not over. With
    Sauté the first cost empties the (zero) budget, so every reward is the penalty of −1: V_R = −2.
    """
    probe = Probe(lambda o, a: 1.0, lambda o, a: 0.5)
    state, nets, sight, _, _ = run(algo, probe, 60)
    x = seen(state, sight, budget=-10.0)
    value = nets.critic.apply(state.critics[REWARD], x)
    cost = nets.critic.apply(state.critics[COST], x)
    wanted = -2.0 if sight.saute is not None else 2.0
    np.testing.assert_allclose(value, wanted, atol=0.25)
    np.testing.assert_allclose(cost, 1.0, atol=0.15)


@pytest.mark.parametrize("algo", ["ppo", "rcpo", "cpo"])
def test_values_that_depend_on_the_observation(algo):
    """r = o, c = (o + 1)/2, γ = 0.5; the next o is ±1 with equal chance.

    V_R(o) = o + 0.5 · E[V_R] and E[V_R] = 0, so V_R(±1) = ±1. E[V_C] = 0.5 / (1 − 0.5) = 1, so
    V_C(−1) = 0 + 0.5 · 1 = 0.5 and V_C(1) = 1 + 0.5 = 1.5.
    """
    probe = Probe(lambda o, a: o, lambda o, a: (o + 1) / 2)
    state, nets, sight, _, _ = run(algo, probe, 120)
    x = seen(state, sight)
    np.testing.assert_allclose(nets.critic.apply(state.critics[REWARD], x), [-1, 1], atol=0.25)
    np.testing.assert_allclose(nets.critic.apply(state.critics[COST], x), [0.5, 1.5], atol=0.25)


@pytest.mark.parametrize("algo", NAMES)
def test_the_best_action_is_found_when_nothing_costs(algo):
    """r = −(a − 0.5 o)²: the best mean is half the observation."""
    probe = Probe(lambda o, a: -((a - 0.5 * o) ** 2), lambda o, a: 0.0)
    state, nets, sight, _, _ = run(algo, probe, 60, gamma=0.0)
    mean = nets.policy.apply(state.theta, seen(state, sight)).mean[:, 0]
    np.testing.assert_allclose(mean, [-0.5, 0.5], atol=0.2)


@pytest.mark.parametrize(
    ("algo", "base"),
    [
        *(("ppo-lag", "ppo"), ("trpo-lag", "trpo"), ("rcpo", "npg"), ("cpo", "trpo")),
        *(("cup", "ppo"), ("ppo-saute", "ppo"), ("trpo-saute", "trpo")),
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
        state, nets, sight, _, _ = run(name, probe, 40, gamma=0.0, multiplier_rate=0.5)
        means[name] = float(nets.policy.apply(state.theta, seen(state, sight)).mean.mean())
    assert means[base] > 0.5
    assert means[algo] < means[base] - 0.4, means


def test_sro_moves_the_policy_away_from_cost():
    """r = 0, c = 1 where a > 0: only SRO has a reason to move, and moves down."""
    probe = Probe(lambda o, a: 0.0, lambda o, a: (a > 0) * 1.0)
    for estimator in ("density", "average"):
        means = {}
        for weight in (0.0, 1.0):
            state, nets, sight, _, _ = run(
                "npg", probe, 30, gamma=0.0, weight=weight, estimator=estimator
            )
            means[weight] = float(nets.policy.apply(state.theta, seen(state, sight)).mean.mean())
        assert means[1.0] < means[0.0] - 0.3, (estimator, means)


def test_cpo_tells_its_cases():
    """All episodes cost: the constraint is out of reach, and CPO only recovers (case 0)."""
    probe = Probe(lambda o, a: a, lambda o, a: 1.0)
    _, _, _, _, metrics = run("cpo", probe, 3)
    assert int(metrics["case"]) == 0
    probe = Probe(lambda o, a: a, lambda o, a: 0.0)  # nothing costs, nothing would: case 1
    _, _, _, _, metrics = run("cpo", probe, 3)
    assert int(metrics["case"]) == 1
