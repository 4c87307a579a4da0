"""The safety-gymnasium tasks with this library's layouts, as environments of OmniSafe 0.5.0.

Importing this module registers them. It imports OmniSafe, and with it safety-gymnasium, so it must
be imported in the context of `python_3_10_dataclasses`.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, ClassVar

import torch
from omnisafe.envs.core import CMDP, env_register
from omnisafe.typing import DEVICE_CPU
from safety_gymnasium_speed import CHEETAH, TASKS, make_environment

Step = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]


@env_register
class SideTask(CMDP):
    """One task, stepped without the wrappers that safety-gymnasium's `make` adds.

    OmniSafe's own class turns on safety-gymnasium's automatic resets besides OmniSafe's, so every
    episode there ends with two resets. Here it ends with one, which favours OmniSafe.

    Args:
        env_id: The task's name.
        num_envs: How many environments; only one is supported.
        device: Where the tensors are.
    """

    need_auto_reset_wrapper = True
    need_time_limit_wrapper = True
    _support_envs: ClassVar[list[str]] = [name for name in TASKS if name != CHEETAH]

    # Of every environment of the process, because OmniSafe hides them behind wrappers.
    seconds_of_resets: ClassVar[list[float]] = []

    def __init__(self, env_id: str, num_envs: int = 1, device: torch.device = DEVICE_CPU) -> None:
        super().__init__(env_id)
        if num_envs != 1:
            raise ValueError("only one environment is supported")
        self._num_envs = num_envs
        self._device = torch.device(device)
        self._env = make_environment(env_id)
        self._action_space = self._env.action_space
        self._observation_space = self._env.observation_space
        self._metadata = self._env.metadata

    @property
    def max_episode_steps(self) -> int:
        """The steps of an episode."""
        return self._env.task.num_steps

    def step(self, action: torch.Tensor) -> Step:
        """Step the task; see `CMDP.step`."""
        *results, info = self._env.step(action.detach().cpu().numpy())
        return *(self._tensor(result) for result in results), info

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Begin an episode in a new layout; see `CMDP.reset`."""
        start = perf_counter()
        observation, info = self._env.reset(seed=seed, options=options)
        self.seconds_of_resets.append(perf_counter() - start)
        return self._tensor(observation), info

    def set_seed(self, seed: int) -> None:
        """Seed the layouts, which takes a reset, as in OmniSafe's own class."""
        self.reset(seed=seed)

    def render(self) -> Any:
        """Refuse to draw, which no measurement needs."""
        raise NotImplementedError("the tasks are not drawn here")

    def close(self) -> None:
        """Close the task."""
        self._env.close()

    def _tensor(self, value: Any) -> torch.Tensor:
        return torch.as_tensor(value, dtype=torch.float32, device=self._device)
