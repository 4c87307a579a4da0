"""Collecting experience: whole episodes with a batch of robots, all in step."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from hipshield.learning.acting import Pilot, draw_noise
from hipshield.learning.context import Context
from hipshield.learning.saute import Saute
from hipshield.learning.state import Batch


class Arena(Protocol):
    """What the learners need of a world; `hipshield.worlds.world.World` is one."""

    robots: int
    actions: int
    observation_size: int
    hidden: np.ndarray

    def reset(self, seed: Any) -> Any:
        """Start episodes; the result has `obs` and `feature`, one row a robot."""

    def step(self, actions: np.ndarray) -> Any:
        """Act; the result has `obs`, `feature`, `reward` and `cost`, one row a robot."""


class Tally(NamedTuple):
    """What an epoch's episodes came to.

    Attributes:
        returns, costs: one value a robot.
        facts: of the pilot's layer, each the mean over all steps and robots.
    """

    returns: np.ndarray
    costs: np.ndarray
    facts: dict[str, float]


class Sight(NamedTuple):
    """How the policy's input is put together: observation, context, and Sauté's budget."""

    context: Context
    saute: Saute | None

    def size(self, arena: Arena) -> int:
        """Return the number of inputs."""
        return arena.observation_size + self.context.size(arena) + (self.saute is not None)

    def see(self, arena: Arena, obs: np.ndarray, memory: Any, budget: np.ndarray) -> np.ndarray:
        """Return what the policy sees, single precision, shape (robots, inputs)."""
        parts = [obs, self.context.read(arena, memory)]
        if self.saute is not None:
            parts.append(budget[:, None])
        return np.concatenate(parts, axis=1).astype(np.float32)


def collect(
    arena: Arena, pilot: Pilot, sight: Sight, *, steps: int, seed: int, epoch: int
) -> tuple[Batch, Tally]:
    """Run one episode of `steps` steps with every robot.

    The seeds of the episodes come from the run's seed and the epoch, so that an epoch depends on
    nothing that a checkpoint would have to hold besides the training state. The batch has the
    actions as the policy proposed them, or as the pilot's layer left them.
    """
    sums: dict[str, float] = {}
    noise = draw_noise(seed, epoch, (steps, arena.robots, arena.actions))
    budget = np.ones(arena.robots)
    now = arena.reset(seed=episode_seeds(seed, epoch, arena.robots))
    memory = sight.context.begin(arena, now)
    seen = np.empty((steps, arena.robots, sight.size(arena)), np.float32)
    actions = np.empty((steps, arena.robots, arena.actions), np.float32)
    rewards, costs, true = (np.empty((steps, arena.robots), np.float32) for _ in range(3))
    for t in range(steps):
        seen[t] = sight.see(arena, now.obs, memory, budget)
        actions[t] = pilot.act(seen[t], noise[t])
        if pilot.layer is not None:
            actions[t], facts = pilot.layer(seen[t], np.clip(actions[t], -1.0, 1.0))
            for name, value in facts.items():
                sums[name] = sums.get(name, 0.0) + float(value.mean())
        executed = np.clip(actions[t], -1.0, 1.0)
        now = arena.step(executed)
        memory = sight.context.observe(memory, executed, now)
        costs[t], true[t] = now.cost, now.reward
        rewards[t] = now.reward
        if sight.saute is not None:
            budget = sight.saute.spend(budget, now.cost, steps)
            rewards[t] = sight.saute.shape(now.reward, budget)
    # The last state is seen with the budget as the episode left it: a fresh one would make the
    # value it bootstraps with that of a robot which may still violate.
    last = sight.see(arena, now.obs, memory, budget)
    means = {name: total / steps for name, total in sums.items()}
    return Batch(seen, last, actions, rewards, costs), Tally(true.sum(0), costs.sum(0), means)


def episode_seeds(seed: int, epoch: int, robots: int) -> list[int]:
    """Return one seed a robot, unlike those of any other epoch or run."""
    words = np.random.SeedSequence([seed, epoch]).generate_state(robots, np.uint64)
    return [int(w) for w in words]
