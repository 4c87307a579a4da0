"""Sauté: the remaining safety budget becomes part of the state, and an empty one ends reward.

z starts at 1 and after each step becomes (z − cost / d) / γ_s, with d the budget a step may use on
average; the policy observes z, and while z ≤ 0 the reward is replaced by a penalty. A zero budget
is emptied for good by the first cost. z is clipped from below, so that an observation stays finite.
"""

from dataclasses import dataclass

import numpy as np

from hipshield.errors import HipshieldError

LOWEST = -10.0
_NOTHING = 1e-8


@dataclass(frozen=True)
class Saute:
    """Settings of the budget.

    Attributes:
        budget: cost that an episode may have in total; 0 allows none.
        gamma: γ_s, discount of the budget.
        penalty: reward of a step while the budget is empty.
    """

    budget: float = 0.0
    gamma: float = 0.999
    penalty: float = -1.0

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.budget < 0 or not 0 < self.gamma < 1:
            raise HipshieldError("Sauté needs a budget of zero or more and 0 < gamma < 1.")

    def per_step(self, steps: int) -> float:
        """Return d: the discounted budget of an episode, spread over its steps."""
        return self.budget * (1 - self.gamma**steps) / (1 - self.gamma) / steps

    def spend(self, z: np.ndarray, cost: np.ndarray, steps: int) -> np.ndarray:
        """Return z after a step, shape (robots,)."""
        share = cost / max(self.per_step(steps), _NOTHING)
        return np.maximum((z - share) / self.gamma, LOWEST)

    def shape(self, reward: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the reward to learn from, given z after the step."""
        return np.where(z > 0, reward, self.penalty)
