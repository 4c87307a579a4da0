"""Gymnasium's API over the batched world: one robot, or many.

Both are thin: the world does the work. `info` carries what Gymnasium has no place for:

* `cost` (0 or 1), `margin` (ν), `feature` (e(s)), `goal_met`, `reward_terms`;
* `hidden_parameters` (φ), for oracles and analysis: an agent is not supposed to look;
* `fault`, only when there was one: why a robot of a batch did not move.

Episodes end by truncation only. Autoreset of the batched one is a named choice, see
`BatchedEnv`.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from hipshield.errors import ActionError, NotResetError, TaskError, did_you_mean
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.hidden import Split
from hipshield.worlds.snapshot import Snapshot
from hipshield.worlds.step import FAULTS, Step
from hipshield.worlds.task import Task
from hipshield.worlds.world import World

if TYPE_CHECKING:
    from hipshield.worlds.seeing.renderer import Renderer

_OPTIONS = ("hidden", "reset_mask")


def _spaces(world: World) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """Return observation and action space of one robot. Lidars read from 0 to 1."""
    low = np.full(world.observation_size, -np.inf)
    high = np.full(world.observation_size, np.inf)
    for name, part in world.parts.items():
        if name.endswith("_lidar"):
            low[part], high[part] = 0.0, 1.0
    observations = gymnasium.spaces.Box(low, high, dtype=np.float64)
    return observations, gymnasium.spaces.Box(-1.0, 1.0, (world.actions,), np.float32)


def _info(world: World, step: Step) -> dict[str, Any]:
    """Return the info of a batch: arrays with one row a robot."""
    return {
        "cost": step.cost,
        "margin": step.margin,
        "feature": step.feature,
        "goal_met": step.met,
        "hidden_parameters": world.hidden.copy(),
        "reward_terms": dict(step.terms),
    }


def _first_row(info: dict[str, Any]) -> dict[str, Any]:
    """Return the info of one robot: plain numbers, and arrays without the robots' axis."""

    def first(value: Any) -> Any:
        if isinstance(value, dict):
            return _first_row(value)
        return value[0].item() if value.ndim == 1 else value[0]

    return {name: first(value) for name, value in info.items()}


def _as_task(task: str | Task) -> Task:
    return task if isinstance(task, Task) else find_task(task)


def _checked_options(options: dict[str, Any] | None) -> dict[str, Any]:
    for name in options or {}:
        if name not in _OPTIONS:
            raise TaskError(f"reset() has no option '{name}'." + did_you_mean(name, _OPTIONS))
    return options or {}


class SingleEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One robot.

    Args:
        task: a task, its short name or its id.
        split: distribution of the hidden parameters, see `worlds/hidden.py`.
        render_mode: None or 'rgb_array'.
        size: of a rendered frame, (width, height) in pixels.
        backend: 'auto', 'mujoco' or 'drawing', see `worlds/seeing/renderer.py`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(
        self,
        task: str | Task,
        split: Split = "train",
        render_mode: str | None = None,
        size: tuple[int, int] = (480, 480),
        backend: str = "auto",
    ) -> None:
        self.world = World(_as_task(task), split=split, threads=1)
        self.observation_space, self.action_space = _spaces(self.world)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise TaskError(f"render_mode must be None or 'rgb_array', got {render_mode!r}.")
        self.metadata = {**self.metadata, "render_fps": round(1 / self.world.seconds_per_step)}
        self.render_mode, self._size, self._backend = render_mode, size, backend
        self._renderer: Renderer | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode. `options={'hidden': φ}` sets the hidden parameters."""
        super().reset(seed=seed)
        hidden = _checked_options(options).get("hidden")
        step = self.world.reset(seed=seed, hidden=hidden)
        return step.obs[0], _first_row(_info(self.world, step))

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Act once.

        Raises:
            ActionError: the action has the wrong shape or is not finite.
        """
        action = np.asarray(action, dtype=float)
        if action.shape != self.action_space.shape:
            raise ActionError(
                f"The action must have shape {self.action_space.shape}, got {action.shape}."
            )
        if not np.isfinite(action).all():
            raise ActionError(f"The action must be finite, got {action.tolist()}.")
        step = self.world.step(action[None])
        info = _first_row(_info(self.world, step))
        if step.fault[0]:
            info["fault"] = FAULTS[step.fault[0]]
        return (
            step.obs[0],
            float(step.reward[0]),
            bool(step.terminated[0]),
            bool(step.truncated[0]),
            info,
        )

    def save(self) -> Snapshot:
        """Return the environment's whole state."""
        return self.world.save()

    def load(self, snapshot: Snapshot) -> np.ndarray:
        """Return to a saved state, exactly, and return its observation."""
        return self.world.load(snapshot).obs[0]

    def render(self) -> np.ndarray | None:
        """Return a frame, shape (height, width, 3), or None when there is no render mode."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            from hipshield.worlds.seeing.renderer import Renderer

            self._renderer = Renderer(self.world, backend=self._backend, size=self._size)
        return self._renderer.frame()

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


class BatchedEnv(VectorEnv):
    """Many robots, stepped together by native threads.

    Autoreset modes, as Gymnasium names them:

    * `SAME_STEP` (default): a robot whose episode ends starts the next one in the same step; its
      last observation and info are in `info['final_obs']` and `info['final_info']`.
    * `NEXT_STEP`: the ended episode's last observation is returned, and the next call ignores
      that robot's action, resets it and returns reward 0.
    * `DISABLED`: reset ended robots yourself with `reset(options={'reset_mask': mask})`.

    A robot whose action is not finite does not move and is named in `info['fault']`; the others
    go on.

    Args:
        num_envs: number of robots.
        task, split: as for `SingleEnv`.
        threads: physics threads, None for one per core. Results do not depend on it.
        autoreset_mode: see above.
        max_episode_steps: replaces the task's own number.
    """

    def __init__(
        self,
        num_envs: int,
        task: str | Task,
        split: Split = "train",
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        max_episode_steps: int | None = None,
    ) -> None:
        task = _as_task(task)
        if max_episode_steps is not None:
            task = replace(task, episode_steps=max_episode_steps)
        self.num_envs = num_envs
        self.world = World(task, num_envs, split, threads)
        self.autoreset = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset, "render_modes": []}
        self.single_observation_space, self.single_action_space = _spaces(self.world)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._ended = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start episodes: of all robots, or of those in `options['reset_mask']`."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        options = _checked_options(options)
        mask = options.get("reset_mask")
        step = self.world.reset(seed=seed, robots=mask, hidden=options.get("hidden"))
        self._ended[slice(None) if mask is None else mask] = False
        return step.obs, _info(self.world, step)

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act once with every robot."""
        ended = self._ended
        if self.autoreset is AutoresetMode.DISABLED and ended.any():
            raise NotResetError(
                f"The episodes of robots {np.flatnonzero(ended).tolist()} are over: call"
                " reset(options={'reset_mask': mask}) for them first."
            )
        if ended.any():  # only in NEXT_STEP: these robots' actions are ignored
            step = self.world.step(actions, robots=~ended)
            fresh = self.world.reset(robots=ended)
            step = step._replace(
                obs=fresh.obs, margin=fresh.margin, feature=fresh.feature, cost=fresh.cost,
                truncated=step.truncated & ~ended,
            )  # fmt: skip
        else:
            step = self.world.step(actions)
        info = _info(self.world, step)
        if step.fault.any():
            info["fault"] = np.array([FAULTS[i] for i in step.fault], dtype=object)
            info["_fault"] = step.fault > 0
        self._ended = step.truncated.copy()
        obs = step.obs
        if self.autoreset is AutoresetMode.SAME_STEP and step.truncated.any():
            obs, info = self._restart(step, info)
        return obs, step.reward, step.terminated, step.truncated, info

    def _restart(self, step: Step, info: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset ended robots, keeping what their episodes ended with."""
        done = step.truncated
        final = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(done):
            final[i] = step.obs[i].copy()
        fresh = self.world.reset(robots=done)
        self._ended = np.zeros(self.num_envs, bool)
        now = _info(self.world, fresh)
        # What a learner needs of the step itself stays the ended step's: its cost was paid.
        now |= {"cost": info["cost"], "goal_met": info["goal_met"]}
        now["reward_terms"] = info["reward_terms"]
        now |= {k: v for k, v in info.items() if k.endswith("fault")}
        now |= {"final_obs": final, "_final_obs": done, "final_info": info, "_final_info": done}
        return fresh.obs, now

    def save(self) -> Snapshot:
        """Return the state of all robots. Between episodes of `NEXT_STEP`, it is not known here."""
        if self._ended.any():
            raise NotResetError("Save a batched environment when no robot is between episodes.")
        return self.world.save()

    def load(self, snapshot: Snapshot) -> np.ndarray:
        """Return to a saved state, exactly, and return its observations."""
        self._ended[:] = False
        return self.world.load(snapshot).obs
