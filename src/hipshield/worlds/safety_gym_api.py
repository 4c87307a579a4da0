"""Safety-Gymnasium's six-tuples, for code that was written for it.

>>> env = SixTuple(gymnasium.make("hipshield/PointGoal1-v0"))
>>> obs, reward, cost, terminated, truncated, info = env.step(action)
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorWrapper

Six = tuple[np.ndarray, Any, Any, Any, Any, dict[str, Any]]


class SixTuple(gymnasium.Wrapper):
    """Returns the cost as the third value of a step. Put it outermost."""

    def step(self, action: np.ndarray) -> Six:  # type: ignore[override]
        """Act once; return (obs, reward, cost, terminated, truncated, info)."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, float(info["cost"]), terminated, truncated, info


class BatchedSixTuple(VectorWrapper):
    """The same for a batch of robots."""

    def step(self, actions: np.ndarray) -> Six:  # type: ignore[override]
        """Act once; return (obs, reward, cost, terminated, truncated, info), rows by robot."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        return obs, reward, info["cost"], terminated, truncated, info
