"""A trained policy at the wheel of a world, for as many episodes as one likes."""

from typing import Any

import numpy as np

from hipshield.learning.run import TrainedPolicy
from hipshield.worlds.world import World


class Driver:
    """Drives every robot of a world; called with the world, as the scripted policies are.

    It keeps what the policy has to remember of the running episodes (the belief of the context
    `encoder`, Sauté's budget), and begins anew when the world was reset.

    Args:
        policy: from `Run.load(folder).policy`.
        seed: draws actions as in training; None takes the distribution's mean.
    """

    def __init__(self, policy: TrainedPolicy, seed: int | None = 0) -> None:
        self.policy, self.seed = policy, seed
        self._memory: Any = None
        self._budget = np.zeros(0)
        self._action = np.zeros(0)

    def __call__(self, world: World) -> np.ndarray:
        """Return actions in [−1, 1], shape (robots, actions)."""
        sight, now = self.policy.sight, world.last
        if not world.elapsed.any():
            self._memory = sight.context.begin(world, now)
            self._budget = np.ones(world.robots)
        else:
            self._memory = sight.context.observe(self._memory, self._action, now)
            if sight.saute is not None:
                steps = world.task.episode_steps
                self._budget = sight.saute.spend(self._budget, now.cost, steps)
        seen = sight.see(world, now.obs, self._memory, self._budget)
        self._action = self.policy(seen, seed=self.seed, moment=int(world.elapsed.max()))
        return self._action
