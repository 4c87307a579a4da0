"""Collecting experience: whole episodes with a batch of robots, all in step."""

from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from hipshield.learning.acting import Pilot, draw_noise
from hipshield.learning.context import Context, begin_following, follow
from hipshield.learning.guard import Guard
from hipshield.learning.saute import Saute
from hipshield.learning.state import Batch
from hipshield.models.identify import Track
from hipshield.models.store import Model


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

    def scene(self) -> Any:
        """Return E, one row a robot; only a guard asks."""


class Tally(NamedTuple):
    """What an epoch's episodes came to.

    Attributes:
        returns, costs: one value a robot.
        facts: of the pilot's layer and of the guard, each the mean over all steps and robots.
    """

    returns: np.ndarray
    costs: np.ndarray
    facts: dict[str, float]


class Sight(NamedTuple):
    """How the policy's input is put together: observation, context, and Sauté's budget.

    Attributes:
        context: what the policy is told about the physics.
        saute: the budget's settings, if it has one.
        model: the predictor that follows the robots, for the context or for a shield.
    """

    context: Context
    saute: Saute | None
    model: Model | None = None

    def size(self, arena: Arena) -> int:
        """Return the number of inputs."""
        told = self.context.size(arena, self.model)
        return arena.observation_size + told + (self.saute is not None)

    def see(
        self, arena: Arena, obs: np.ndarray, track: Track | None, budget: np.ndarray
    ) -> np.ndarray:
        """Return what the policy sees, single precision, shape (robots, inputs)."""
        parts = [obs, self.context.read(arena, self.model, track)]
        if self.saute is not None:
            parts.append(budget[:, None])
        return np.concatenate(parts, axis=1).astype(np.float32)


class Sums:
    """Adds up facts about steps; their means are an epoch's."""

    def __init__(self) -> None:
        self.totals: dict[str, float] = {}

    def add(self, facts: dict[str, np.ndarray]) -> None:
        """Take in one step: values by name, one a robot."""
        for name, value in facts.items():
            self.totals[name] = self.totals.get(name, 0.0) + float(value.mean())

    def means(self, steps: int) -> dict[str, float]:
        """Return the mean of each over steps and robots."""
        return {name: total / steps for name, total in self.totals.items()}


def collect(
    arena: Arena, pilot: Pilot, sight: Sight, *, steps: int, seed: int, epoch: int
) -> tuple[Batch, Tally]:
    """Run one episode of `steps` steps with every robot.

    The seeds of the episodes come from the run's seed and the epoch, so that an epoch depends on
    nothing that a checkpoint would have to hold besides the training state. The batch has the
    actions as the policy proposed them, or as the pilot's layer left them, and beside them what
    was executed: a guard may have decided otherwise.
    """
    sums, robots = Sums(), arena.robots
    noise = draw_noise(seed, epoch, (steps, robots, arena.actions))
    budget = np.ones(robots)
    now = arena.reset(seed=episode_seeds(seed, epoch, robots))
    track: Any = begin_following(sight.model, arena, now)
    guard: Guard | None = pilot.guard
    watch: Any = guard.begin(robots, seed, epoch) if guard else None
    seen = np.empty((steps, robots, sight.size(arena)), np.float32)
    actions, executed = (np.empty((steps, robots, arena.actions), np.float32) for _ in range(2))
    rewards, costs, true = (np.empty((steps, robots), np.float32) for _ in range(3))
    for t in range(steps):
        seen[t] = sight.see(arena, now.obs, track, budget)
        actions[t] = pilot.act(seen[t], noise[t])
        if pilot.layer is not None:
            actions[t], facts = pilot.layer(seen[t], np.clip(actions[t], -1.0, 1.0))
            sums.add(facts)
        executed[t] = np.clip(actions[t], -1.0, 1.0)
        if guard is not None:
            executed[t], watch, facts = guard.decide(
                watch, track, executed[t], partial(pilot.act, seen[t]), arena.scene()
            )
            sums.add(facts)
        now = arena.step(executed[t])
        before, track = track, follow(sight.model, track, executed[t], now)
        if guard is not None:
            watch = guard.observe(watch, before, executed[t], track)
        costs[t], true[t] = now.cost, now.reward
        rewards[t] = now.reward
        if sight.saute is not None:
            budget = sight.saute.spend(budget, now.cost, steps)
            rewards[t] = sight.saute.shape(now.reward, budget)
    # The last state is seen with the budget as the episode left it: a fresh one would make the
    # value it bootstraps with that of a robot which may still violate.
    last = sight.see(arena, now.obs, track, budget)
    batch = Batch(seen, last, actions, rewards, costs, executed)
    return batch, Tally(true.sum(0), costs.sum(0), sums.means(steps))


def episode_seeds(seed: int, epoch: int, robots: int) -> list[int]:
    """Return one seed a robot, unlike those of any other epoch or run."""
    words = np.random.SeedSequence([seed, epoch]).generate_state(robots, np.uint64)
    return [int(w) for w in words]
