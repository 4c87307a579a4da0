"""The off-policy learner: an epoch's episodes join a replay, then minibatches are drawn from it.

All minibatches of an epoch are one compiled loop. Every random choice has a key of its own, folded
from the run's seed, the epoch and the stage's number.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from hipshield.learning.acting import Actor, Layer, Pilot, make_squashed_actor
from hipshield.learning.advantages import gae
from hipshield.learning.catalogue import OffPolicy
from hipshield.learning.config import TrainConfig
from hipshield.learning.learner import Improved, Learner, Memory, Metrics
from hipshield.learning.networks import Critic, Squashed
from hipshield.learning.normaliser import include, normalise
from hipshield.learning.replay import Replay, draw_rows, empty_replay, read_rows, remember
from hipshield.learning.state import Batch
from hipshield.learning.twin_delayed import (
    COST_Q,
    Transitions,
    TwinProblem,
    TwinState,
    fit_critics,
    improve_twin,
    start_twin_state,
)
from hipshield.learning.unrolling import make_layer
from hipshield.learning.update import trace_counts
from hipshield.mlp import Mlp

_ROWS, _NOISE = range(2)  # stages that draw random numbers


@dataclass(frozen=True)
class OffRecipe:
    """What stays the same in all epochs of a run.

    Attributes:
        algorithm: the row of the catalogue.
        problem: networks, settings, discounts and constraint.
        shape: steps and robots of an epoch.
        epochs: length of the run.
    """

    algorithm: OffPolicy
    problem: TwinProblem
    shape: tuple[int, int]
    epochs: int

    @property
    def rounds(self) -> int:
        """Policy updates an epoch; each comes with `delay` minibatches for the critics."""
        steps, robots = self.shape
        return max(1, steps * robots // self.algorithm.step.every // self.algorithm.step.delay)

    @property
    def slots(self) -> int:
        """Epochs that the replay holds."""
        steps, robots = self.shape
        return max(1, min(self.algorithm.step.memory // (steps * robots), self.epochs))

    @property
    def warm_up(self) -> int:
        """Epochs before the safety layer corrects anything."""
        layer = self.algorithm.layer
        return 0 if layer is None else round(layer.warm_up * self.epochs)


def make_off_recipe(config: TrainConfig, row: OffPolicy, inputs: int, actions: int) -> OffRecipe:
    """Return what stays the same in all epochs of a run."""
    steps, layer = config.find_task().episode_steps, row.layer
    problem = TwinProblem(
        step=row.step,
        policy=Squashed(Mlp((inputs, *config.hidden, actions))),
        critic=Critic(Mlp((inputs + actions, *config.hidden, 1))),
        gamma=config.gamma,
        cost_gamma=config.cost_gamma,
        penalty=0.0 if layer is None else layer.penalty,
        delta=0.0 if layer is None else layer.bound(config.cost_limit, config.cost_gamma, steps),
    )
    return OffRecipe(row, problem, (steps, config.robots), config.epochs)


@partial(jax.jit, static_argnums=0)
def learn(
    recipe: OffRecipe, state: TwinState, replay: Replay, seed: jax.Array
) -> tuple[TwinState, Metrics]:
    """Return the state after the epoch that is the replay's newest, and the updates' means.

    The normaliser takes in the epoch first: policy and critics see all of the replay with one
    set of statistics, and the robots of the next epoch with the same.
    """
    trace_counts[recipe.algorithm.name, "learn"] += 1
    problem, (steps, _) = recipe.problem, recipe.shape
    slot = state.epoch % recipe.slots
    seen = replay.obs[slot, :steps]
    state = state._replace(normaliser=include(state.normaliser, seen.reshape(-1, seen.shape[-1])))
    key = jax.random.fold_in(jax.random.key(seed), state.epoch)
    shape = (recipe.rounds, problem.step.delay, problem.step.batch)
    filled = jnp.minimum(state.epoch + 1, recipe.slots)
    rows = draw_rows(jax.random.fold_in(key, _ROWS), replay, filled, shape)
    noise = jax.random.normal(jax.random.fold_in(key, _NOISE), (*shape, problem.policy.actions))

    def one_round(state: TwinState, part: Any) -> tuple[TwinState, Metrics]:
        for numbers, draws in zip(*part, strict=True):
            obs, action, reward, cost, after = read_rows(replay, numbers)
            x, next_x = (normalise(state.normaliser, o) for o in (obs, after))
            minibatch = Transitions(x, action, reward, cost, next_x)
            state, metrics = fit_critics(problem, state, minibatch, draws)
        return improve_twin(problem, state, x), metrics

    state, metrics = jax.lax.scan(one_round, state, (rows, noise))
    metrics = {name: values.mean() for name, values in metrics.items()}
    # What Q_R and Q_C should read; the later half of an episode does not see enough of the rest.
    for name, signal, gamma in zip(
        ("reward_to_go", "cost_to_go"),
        jnp.moveaxis(replay.signal[slot], -1, 0),
        (problem.gamma, problem.cost_gamma),
        strict=True,
    ):
        nothing = jnp.zeros_like(signal)
        metrics[name] = gae(signal, nothing, nothing[0], gamma, 1.0)[0][: steps // 2].mean()
    return state._replace(epoch=state.epoch + 1), metrics


def off_policy(recipe: OffRecipe, seed: int) -> Learner:
    """Return the learner; its memory is a replay of the newest epochs."""
    problem, step, how = recipe.problem, recipe.algorithm.step, recipe.algorithm.layer
    steps, robots = recipe.shape

    def correct(state: TwinState, on: bool) -> Layer | None:
        if how is None:
            return None
        settings = how if on else replace(how, iterations=0)  # which only looks
        theta = state.critics_target[COST_Q]
        return make_layer(settings, problem.delta, problem.critic, theta, state.normaliser)

    def act(state: TwinState) -> Actor:
        mean = make_squashed_actor(problem.policy, state.theta, state.normaliser)
        layer = correct(state, on=True)
        if layer is None:
            return mean
        return lambda x, noise: layer(x, mean(x, 0.0))[0]

    def explore(state: TwinState) -> Pilot:
        epoch = int(state.epoch)
        mean = make_squashed_actor(problem.policy, state.theta, state.normaliser, step.exploration)
        chosen = mean if epoch >= step.random_epochs else _uniform
        return Pilot(chosen, correct(state, on=epoch >= recipe.warm_up))

    def recall(batches: Iterable[tuple[int, Batch]]) -> Memory:
        inputs = problem.policy.net.sizes[0]
        replay = empty_replay(recipe.slots, steps, robots, inputs, problem.policy.actions)
        for epoch, batch in batches:
            replay = remember(replay, batch, epoch)
        return replay

    def improve(state: TwinState, memory: Memory, batch: Batch) -> tuple[Memory, Improved]:
        memory = remember(memory, batch, int(state.epoch))
        state, metrics = learn(recipe, state, memory, seed)
        return memory, (state, None, metrics)

    return Learner(
        start=lambda: start_twin_state(problem, seed),
        policy=act,
        explorer=explore,
        remembers=recipe.slots - 1,
        recall=recall,
        improve=improve,
        finish=lambda improved: (improved[0], improved[2]),
    )


def _uniform(x: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return uniformly random actions: the normal distribution function of normal noise."""
    return np.asarray(2 * ndtr(noise) - 1, np.float32)
