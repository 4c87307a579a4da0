"""One update: from an epoch's batch to the next state, as two compiled functions.

Five stages: look at the batch (normalise, value, advantages), move the multiplier, regularise and
penalise the advantage, take the policy step, fit the critics. Every random choice has a key of
its own, folded from the run's seed, the epoch and the stage's number, so a stage that is switched
off changes nothing else.

`improve` runs the first four, `fit` the last: the next episodes need only the policy, so the
training loop fits the critics while the robots are already collecting.
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

Improved = tuple[TrainState, Samples, dict[str, jax.Array]]  # what `improve` hands to `fit`

trace_counts: Counter[tuple[str, str]] = Counter()  # (algorithm, function) -> compilations

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


@partial(jax.jit, static_argnums=0)
def improve(recipe: Recipe, state: TrainState, batch: Batch, seed: jax.Array) -> Improved:
    """Return the state with its new policy, the samples for `fit`, and what the step was like.

    The normaliser takes in the batch here, too: it belongs to the policy's eyes. The samples keep
    the inputs as the statistics before it made them.
    """
    trace_counts[recipe.algorithm.name, "improve"] += 1
    samples = prepare(recipe, state, batch)
    if recipe.algorithm.multiplier:
        state = update_multiplier(
            state, samples.episode_cost, recipe.cost_limit, recipe.multiplier_rate
        )
    state, metrics = improve_policy(recipe, state, samples, _key(seed, state))
    policy = recipe.networks.policy.apply(state.theta, samples.x)
    metrics |= {
        "multiplier": state.multiplier,
        "entropy": policy.entropy().mean(),
        "action_std": jnp.exp(policy.log_std).mean(),
    }
    flat = batch.obs.reshape(-1, batch.obs.shape[-1])
    return state._replace(normaliser=include(state.normaliser, flat)), samples, metrics


@partial(jax.jit, static_argnums=0)
def fit(
    recipe: Recipe,
    state: TrainState,
    samples: Samples,
    metrics: dict[str, jax.Array],
    seed: jax.Array,
) -> tuple[TrainState, dict[str, jax.Array]]:
    """Return the state after the epoch, its critics fitted, and what a person wants to see of it.

    Args:
        recipe: of the run.
        state: from `improve`, as are the samples and the metrics.
        samples: the epoch's.
        metrics: to add to.
        seed: of the run.
    """
    row, nets, key = recipe.algorithm, recipe.networks, _key(seed, state)
    trace_counts[row.name, "fit"] += 1
    how = row.critics
    if "passes" in metrics:  # critics stop with the policy's passes, as was published
        how = replace(how, passes=metrics["passes"])
    state = fit_values(how, nets.critic, state, samples, jax.random.fold_in(key, _VALUES))
    if recipe.sro.weight > 0:
        how = replace(row.critics, passes=10)
        state = fit_cost_q(how, nets.cost_q, state, samples, jax.random.fold_in(key, _COST_Q))
    value = nets.critic.apply
    losses = {
        "value_loss": ((value(state.critics[REWARD], samples.x) - samples.targets[0]) ** 2).mean(),
        "cost_loss": ((value(state.critics[COST], samples.x) - samples.targets[1]) ** 2).mean(),
    }
    return state._replace(epoch=state.epoch + 1), metrics | losses


def update(
    recipe: Recipe, state: TrainState, batch: Batch, seed: jax.Array
) -> tuple[TrainState, dict[str, jax.Array]]:
    """Return the state after one epoch's whole update, and what a person wants to see of it."""
    return fit(recipe, *improve(recipe, state, batch, seed), seed)


def _key(seed: jax.Array, state: TrainState) -> jax.Array:
    return jax.random.fold_in(jax.random.key(seed), state.epoch)
