"""One update: from an epoch's batch to the next state, as one compiled function.

Five stages: look at the batch (normalise, value, advantages), move the multiplier, regularise and
penalise the advantage, take the policy step, fit the critics. Every random choice has a key of
its own, folded from the run's seed, the epoch and the stage's number, so a stage that is switched
off changes nothing else.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from hipshield.learning.advantages import centred, gae, standardised
from hipshield.learning.catalogue import Algorithm
from hipshield.learning.constrained import Constrained, constrained_step
from hipshield.learning.critics import fit_cost_q, fit_values
from hipshield.learning.cup import ImproveThenProject, cup_step
from hipshield.learning.lagrange import RATE, penalised, update_multiplier
from hipshield.learning.networks import Networks
from hipshield.learning.normaliser import include, normalise
from hipshield.learning.policy_steps import Clipped, Natural, Problem, clipped_step, natural_step
from hipshield.learning.sro import Sro, q_safe
from hipshield.learning.state import COST, REWARD, Batch, Samples, TrainState

trace_counts: Counter[str] = Counter()  # algorithm's name -> compilations of `update`

STEPS = {
    Clipped: clipped_step,
    Natural: natural_step,
    Constrained: constrained_step,
    ImproveThenProject: cup_step,
}
_POLICY, _VALUES, _COST_Q, _SRO = range(4)  # stages that draw random numbers


@dataclass(frozen=True)
class Recipe:
    """What stays the same in all updates of a run.

    Attributes:
        algorithm: the row of the catalogue.
        networks: shapes of policy and critics.
        sro: settings of SRO.
        gamma, cost_gamma: discounts.
        lam, cost_lam: λ of GAE.
        cost_limit: mean cost that an episode may have.
        multiplier_rate: Adam's rate on the Lagrange multiplier.
        epochs: length of the run.
    """

    algorithm: Algorithm
    networks: Networks
    sro: Sro
    gamma: float = 0.99
    cost_gamma: float = 0.99
    lam: float = 0.95
    cost_lam: float = 0.95
    cost_limit: float = 0.0
    multiplier_rate: float = RATE
    epochs: int = 100


def prepare(recipe: Recipe, state: TrainState, batch: Batch) -> Samples:
    """Return a batch's samples: normalised inputs, probabilities, advantages and targets."""
    nets = recipe.networks
    x, last = (normalise(state.normaliser, o) for o in (batch.obs, batch.last_obs))
    log_prob = nets.policy.apply(state.theta, x).log_prob(batch.action)
    rows = {}
    for which, signal, gamma, lam in (
        (REWARD, batch.reward, recipe.gamma, recipe.lam),
        (COST, batch.cost, recipe.cost_gamma, recipe.cost_lam),
    ):
        value = partial(nets.critic.apply, state.critics[which])
        rows[which] = gae(signal, value(x), value(last), gamma, lam)
    flat = x.shape[0] * x.shape[1]
    return Samples(
        x=x.reshape(flat, -1),
        action=batch.action.reshape(flat, -1),
        log_prob=log_prob.reshape(flat),
        reward_advantage=standardised(rows[REWARD][0]).reshape(flat),
        cost_advantage=centred(rows[COST][0]).reshape(flat),
        targets=jnp.stack([rows[REWARD][1].reshape(flat), rows[COST][1].reshape(flat)]),
        episode_cost=batch.cost.sum(0).mean(),
    )


def improve_policy(
    recipe: Recipe, state: TrainState, samples: Samples, key: jax.Array
) -> tuple[TrainState, dict[str, jax.Array]]:
    """Take the policy step on the advantage that regulariser and constraint have made."""
    row, metrics = recipe.algorithm, {}
    advantage = samples.reward_advantage
    if recipe.sro.weight > 0:
        bonus = q_safe(recipe.sro, recipe.networks, state, samples, jax.random.fold_in(key, _SRO))
        advantage = advantage + recipe.sro.weight * bonus
        metrics["q_safe"] = bonus.mean()
    if row.penalised:
        advantage = penalised(advantage, samples.cost_advantage, state.multiplier)
    problem = Problem(
        policy=recipe.networks.policy,
        samples=samples,
        advantage=advantage,
        excess=samples.episode_cost - recipe.cost_limit,
        multiplier=state.multiplier,
        key=jax.random.fold_in(key, _POLICY),
        share=1 - state.epoch / recipe.epochs,
    )
    step: Any = STEPS[type(row.step)]
    state, more = step(row.step, state, problem)
    return state, metrics | more


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def update(
    recipe: Recipe, state: TrainState, batch: Batch, seed: jax.Array
) -> tuple[TrainState, dict[str, jax.Array]]:
    """Return the state after one epoch's update, and what a person wants to see of it."""
    row, nets = recipe.algorithm, recipe.networks
    trace_counts[row.name] += 1
    key = jax.random.fold_in(jax.random.key(seed), state.epoch)
    samples = prepare(recipe, state, batch)
    if row.multiplier:
        state = update_multiplier(
            state, samples.episode_cost, recipe.cost_limit, recipe.multiplier_rate
        )
    state, metrics = improve_policy(recipe, state, samples, key)
    fit = row.critics
    if "passes" in metrics:  # critics stop with the policy's passes, as was published
        fit = replace(fit, passes=metrics["passes"])
    state = fit_values(fit, nets.critic, state, samples, jax.random.fold_in(key, _VALUES))
    if recipe.sro.weight > 0:
        fit = replace(row.critics, passes=10)
        state = fit_cost_q(fit, nets.cost_q, state, samples, jax.random.fold_in(key, _COST_Q))
    value = nets.critic.apply
    policy = nets.policy.apply(state.theta, samples.x)
    metrics |= {
        "multiplier": state.multiplier,
        "entropy": policy.entropy().mean(),
        "action_std": jnp.exp(policy.log_std).mean(),
        "value_loss": ((value(state.critics[REWARD], samples.x) - samples.targets[0]) ** 2).mean(),
        "cost_loss": ((value(state.critics[COST], samples.x) - samples.targets[1]) ** 2).mean(),
    }
    flat = batch.obs.reshape(-1, batch.obs.shape[-1])
    return (
        state._replace(normaliser=include(state.normaliser, flat), epoch=state.epoch + 1),
        metrics,
    )
