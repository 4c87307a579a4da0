"""A trained policy at the wheel of a world, for as many episodes as one likes."""

from typing import Any

import numpy as np

from hipshield.learning.context import begin_following, follow
from hipshield.learning.guard import Guard
from hipshield.learning.run import TrainedPolicy
from hipshield.worlds.world import World


class Driver:
    """Drives every robot of a world; called with the world, as the scripted policies are.

    It keeps what has to be remembered of the running episodes (the belief of the context
    `encoder`, Sauté's budget, the shield's calibration), and begins anew when the world was reset.

    Args:
        policy: from `Run.load(folder).policy`.
        seed: draws actions as in training; None takes the distribution's mean.
        guard: a shield that has the last word, from `make_guard`.

    Attributes:
        facts: what the guard did in the last step, one value a robot; see `guard.facts_of`.
    """

    def __init__(
        self, policy: TrainedPolicy, seed: int | None = 0, guard: Guard | None = None
    ) -> None:
        self.policy, self.seed, self.guard = policy, seed, guard
        self.facts: dict[str, np.ndarray] = {}
        self._track: Any = None  # of the policy's own model
        self._ward: Any = None  # of the guard's, which may be another
        self._watch: Any = None
        self._budget = np.zeros(0)
        self._action = np.zeros(0)

    def __call__(self, world: World) -> np.ndarray:
        """Return actions in [−1, 1], shape (robots, actions)."""
        if not world.elapsed.any():
            self._begin(world)
        else:
            self._observe(world)
        seen = self.policy.sight.see(world, world.last.obs, self._track, self._budget)
        moment = int(world.elapsed.max())
        self._action = self.policy(seen, seed=self.seed, moment=moment)
        if self.guard is not None:
            self._action, self._watch, self.facts = self.guard.decide(
                self._watch,
                self._ward,
                self._action,
                lambda noise: self.policy.act(seen, noise),
                world.scene(),
            )
        return self._action

    def _begin(self, world: World) -> None:
        self._track = begin_following(self.policy.sight.model, world, world.last)
        self._budget = np.ones(world.robots)
        if self.guard is not None:
            self._ward = begin_following(self.guard.model, world, world.last)
            self._watch = self.guard.begin(world.robots, self.seed or 0)

    def _observe(self, world: World) -> None:
        sight, now = self.policy.sight, world.last
        self._track = follow(sight.model, self._track, self._action, now)
        if sight.saute is not None:
            steps = world.task.episode_steps
            self._budget = sight.saute.spend(self._budget, now.cost, steps)
        if self.guard is not None:
            before, self._ward = self._ward, follow(self.guard.model, self._ward, self._action, now)
            self._watch = self.guard.observe(self._watch, before, self._action, self._ward)
