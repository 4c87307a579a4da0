"""The batched environment: every robot of a batch steps at once.

    >>> world = World(find_task("point-goal"), robots=64, split="train")
    >>> step = world.reset(seed=0)
    >>> step = world.step(policy(step.obs))

Each robot has its own physics, layout and random generator, so robot i of a batch that was reset
with `seed` lives through the same bits as a world of one robot that was reset with `seed + i`,
whatever the number of threads. Nothing resets by itself here: the Gymnasium skins
(`worlds/gym_api.py`) and the training loop decide when.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from hipshield.errors import NotResetError, SnapshotError, TaskError
from hipshield.worlds.checks import action_rows, hidden_values, robot_ids, seed_list
from hipshield.worlds.hidden import Split, make_sampler
from hipshield.worlds.layout import Layout, draw_goal, draw_layout, stack_layouts
from hipshield.worlds.margins import Scene, make_scene
from hipshield.worlds.objectives import (
    View,
    achieved,
    distances,
    reward_terms,
    total_reward,
)
from hipshield.worlds.physics import Physics
from hipshield.worlds.sensing import feature_of, look, observation_parts
from hipshield.worlds.snapshot import Snapshot, generator_state, restored_generator
from hipshield.worlds.step import Step, held, merge
from hipshield.worlds.task import ButtonObjective, RunObjective, Task


class World:
    """A batch of robots in worlds of one task.

    Args:
        task: the description.
        robots: how many.
        split: where hidden parameters are drawn from: 'train', 'ood', 'fixed', or a mapping of
            their names to ranges (those left out stay at 1).
        threads: physics threads; None means one per core. Results do not depend on it.

    Attributes:
        hidden: φ of each robot, shape (robots, parameters).
        layout: what is where now; the goal moves when it is met, the robot and box rows are the
            start's.
        elapsed: steps since each robot's reset, shape (robots,).
    """

    def __init__(
        self, task: Task, robots: int = 1, split: Split = "train", threads: int | None = None
    ) -> None:
        if robots < 1:
            raise TaskError(f"A world needs at least one robot, got {robots}.")
        self.task, self.robots, self.split = task, robots, split
        self._sampler = make_sampler(task.hidden, split)
        trial = draw_layout(task, np.random.default_rng(0))  # an impossible task fails here
        self.layout = stack_layouts([trial] * robots)
        self._physics = Physics(task, robots, threads)
        self.actions = self._physics.model.nu
        self.hidden = np.ones((robots, len(task.hidden)))
        self.elapsed = np.zeros(robots, int)
        self._rng = [np.random.default_rng() for _ in range(robots)]
        self._timer = np.zeros(robots, int)
        self._last = np.zeros((robots, 2))
        self._velocity = np.zeros(robots)
        self._running = isinstance(task.objective, RunObjective)
        self._step: Step | None = None
        self._scene = make_scene(task, self.layout.hazards)  # its obstacles are the layout's
        self.parts = observation_parts(task, self._view(np.zeros((robots, self.actions))))
        self.observation_size = max(s.stop for s in self.parts.values())

    @property
    def physics(self) -> Physics:
        """The physics underneath, for renderers and tests."""
        return self._physics

    @property
    def last(self) -> Step:
        """What the last reset or step gave."""
        if self._step is None:
            raise NotResetError("Reset a world before looking at its last step.")
        return self._step

    @property
    def seconds_per_step(self) -> float:
        """Simulated time of one environment step."""
        return self._physics.model.opt.timestep * self._physics.machine.substeps

    # Resetting

    def reset(
        self,
        seed: int | Sequence[int] | None = None,
        robots: np.ndarray | None = None,
        hidden: np.ndarray | None = None,
    ) -> Step:
        """Start new episodes.

        Args:
            seed: robot i gets a generator of `seed + i` (or of seed[i]); None goes on with the
                generators there are, which are unpredictable before the first seed.
            robots: which, as indices or as a mask; None means all. The others' rows of the
                returned step stay as they were.
            hidden: φ to use instead of drawn values, shape (n, parameters) or (parameters,).

        Returns:
            The first step: zero reward and cost, and the observation after a reset.
        """
        ids = robot_ids(robots, self.robots)
        if self._step is None and len(ids) < self.robots:
            raise NotResetError("Reset all robots of a world before resetting some of them.")
        self._seed(ids, seed)
        drawn = [self._sampler.draw(self._rng[i]) for i in ids]
        self.hidden[ids] = np.reshape(drawn, (len(ids), -1))
        if hidden is not None:
            self.hidden[ids] = hidden_values(hidden, len(ids), self.task)
        layout = stack_layouts([draw_layout(self.task, self._rng[i]) for i in ids])
        for mine, new in zip(self.layout, layout, strict=True):
            mine[ids] = new
        self._physics.arrange(ids, layout)
        self._physics.set_hidden(ids, self.hidden[ids])
        self._physics.place(ids, layout)
        if self._running:
            self._shake(ids)
        self._physics.forward(ids)
        for array in (self.elapsed, self._timer, self._velocity):
            array[ids] = 0
        return self._first_look(ids)

    def _shake(self, ids: np.ndarray) -> None:
        """Start the half-cheetah from a slightly random pose, as Gymnasium does."""
        noise = cast(RunObjective, self.task.objective).start_noise
        qpos, qvel = self._physics.state["qpos"], self._physics.state["qvel"]
        for i in ids:
            qpos[i] += self._rng[i].uniform(-noise, noise, qpos.shape[1])
            qvel[i] = noise * self._rng[i].standard_normal(qvel.shape[1])

    def _seed(self, ids: np.ndarray, seed: int | Sequence[int] | None) -> None:
        if seed is None:
            return
        seeds = seed_list(seed, ids)
        for i, value in zip(ids, seeds, strict=True):
            self._rng[i] = np.random.default_rng(value)

    def _first_look(self, ids: np.ndarray) -> Step:
        """Observe after a reset; rows of robots that were not reset keep their last step."""
        view = self._view(np.zeros((self.robots, self.actions)))
        obs, nu = look(self.task, view, self._scene)
        now = distances(self.task, view)
        self._last[ids] = now[ids]
        zero, no = np.zeros(self.robots), np.zeros(self.robots, bool)
        fresh = Step(
            obs=obs,
            reward=zero,
            cost=zero,
            margin=nu,
            feature=np.array(feature_of(self.task, view)),
            met=no,
            terminated=no,
            truncated=no,
            fault=np.zeros(self.robots, int),
            terms=dict.fromkeys(reward_terms(self.task, view, now, no), zero),
        )
        self._step = fresh if self._step is None else merge(self._step, fresh, ids)
        return self._step

    # Stepping

    def step(self, actions: np.ndarray, robots: np.ndarray | None = None) -> Step:
        """Act for one environment step.

        A robot whose action is not finite, or whose physics diverge, does not move: its row says
        so in `fault`, and the others go on. Diverged episodes are truncated.

        Args:
            actions: shape (robots, actions). MuJoCo clips them to the actuators' [−1, 1].
            robots: which act, as indices or as a mask; None means all. The others wait: their
                rows repeat their last look, and earn nothing.

        Raises:
            NotResetError: there was no reset yet.
            ActionError: the shape is wrong.
        """
        if self._step is None:
            raise NotResetError("Call reset() before step().")
        actions = action_rows(actions, self.robots, self.actions)
        finite = np.isfinite(actions).all(1)
        acting = finite.copy()
        if robots is not None:
            wanted = np.isin(np.arange(self.robots), robot_ids(robots, self.robots))
            acting &= wanted
            finite |= ~wanted
        ids = None if acting.all() else np.flatnonzero(acting)
        x_before = self._physics.state["qpos"][:, 0].copy()
        moved = self._physics.advance(actions, ids)
        if self._running:
            travelled = self._physics.state["qpos"][:, 0] - x_before
            self._velocity[moved] = (travelled / self.seconds_per_step)[moved]
        self.elapsed += moved
        fault = np.where(~finite, 1, np.where(acting & ~moved, 2, 0))
        step = self._outcome(np.where(acting[:, None], actions, 0.0), moved, fault)
        # A row that did not move shows its last observation again, and earns nothing.
        self._step = step if moved.all() else merge(held(self._step, fault), step, moved)
        return self._step

    def _outcome(self, actions: np.ndarray, moved: np.ndarray, fault: np.ndarray) -> Step:
        """Judge the new states, move met goals, observe."""
        self._timer[moved] = np.maximum(self._timer[moved] - 1, 0)
        view = self._view(actions)
        now = distances(self.task, view)
        met = achieved(self.task, view, now) & moved
        terms = reward_terms(self.task, view, now, met)
        self._last[moved] = now[moved]
        if met.any():
            view = self._move_goals(np.flatnonzero(met), view)
        obs, nu = look(self.task, view, self._scene)
        return Step(
            obs=obs,
            reward=total_reward(self.task, terms),
            cost=(nu <= 0) * 1.0,
            margin=nu,
            feature=np.array(feature_of(self.task, view)),
            met=met,
            terminated=np.zeros(self.robots, bool),
            truncated=self.elapsed >= self.task.episode_steps,
            fault=fault,
            terms=terms,
        )

    def _move_goals(self, ids: np.ndarray, view: View) -> View:
        """Draw new goals for robots that met theirs; return the view with them."""
        for i in ids:
            self._move_goal(int(i), view)
        view = view._replace(
            goal=self.layout.goal, goal_button=self.layout.goal_button, timer=self._timer
        )
        self._last[ids] = distances(self.task, view)[ids]
        return view

    def _move_goal(self, robot: int, view: View) -> None:
        now = Layout(*(field[robot] for field in self.layout))
        now = now._replace(robot=view.position[robot], box=view.box[robot])
        goal, button = draw_goal(self.task, self._rng[robot], now)
        self.layout.goal[robot], self.layout.goal_button[robot] = goal, button
        if isinstance(self.task.objective, ButtonObjective):
            self._timer[robot] = self.task.objective.delay

    def _view(self, actions: np.ndarray) -> View:
        """Collect what sensing needs: copies, so that a step's record never changes later."""
        physics, layout = self._physics, self.layout
        if self._running:
            state = physics.state
            none = np.zeros((self.robots, 3))
            position, rotation, box = none, np.zeros((self.robots, 3, 3)), none
            touched = np.zeros((self.robots, 0))
            sensors = np.concatenate([state["qpos"][:, 1:], state["qvel"]], 1)
        else:
            position = physics.xpos[:, physics.agent].copy()
            rotation = physics.xmat[:, physics.agent].copy()
            box, touched = physics.box().copy(), physics.touches().copy()
            sensors = physics.sensors.copy()
        return View(
            position=position,
            rotation=rotation,
            sensors=sensors,
            velocity=self._velocity.copy(),
            touched=touched,
            box=box,
            hazards=layout.hazards,
            buttons=layout.buttons,
            pillars=layout.pillars,
            goal=layout.goal,
            goal_button=layout.goal_button,
            timer=self._timer,
            last=self._last,
            action=actions,
        )

    # Looking

    def scene(self) -> Scene:
        """Return E for every robot: what a shield reads besides the robot's own feature."""
        return Scene(*(x.copy() for x in self._scene))

    def view(self) -> View:
        """Return where everything is now, for drawings and scripted policies."""
        if self._step is None:
            raise NotResetError("Call reset() before looking at a world.")
        return self._view(np.zeros((self.robots, self.actions)))

    def set_hidden(self, hidden: np.ndarray, robots: np.ndarray | None = None) -> None:
        """Change the physics in the middle of an episode."""
        ids = robot_ids(robots, self.robots)
        self.hidden[ids] = hidden_values(hidden, len(ids), self.task)
        self._physics.set_hidden(ids, self.hidden[ids])

    # Saving and restoring

    def save(self) -> Snapshot:
        """Return everything that the future of this world depends on."""
        if self._step is None:
            raise NotResetError("Call reset() before save().")
        arrays = {f"physics.{k}": v.copy() for k, v in self._physics.state.items()}
        arrays |= {f"layout.{k}": v.copy() for k, v in self.layout._asdict().items()}
        step = self._step._asdict()
        terms = step.pop("terms")
        arrays |= {f"step.{k}": v.copy() for k, v in step.items()}
        arrays |= {f"terms.{k}": v.copy() for k, v in terms.items()}
        arrays |= {
            "hidden": self.hidden.copy(),
            "elapsed": self.elapsed.copy(),
            "timer": self._timer.copy(),
            "last": self._last.copy(),
            "velocity": self._velocity.copy(),
            "rng": np.stack([generator_state(g) for g in self._rng]),
        }
        return Snapshot(self.task.name, arrays)

    def load(self, snapshot: Snapshot) -> Step:
        """Return to a saved state, exactly; the next steps are the same bits as then.

        Raises:
            SnapshotError: it was saved from a world of another task or number of robots.
        """
        self._check_snapshot(snapshot)
        get = snapshot.arrays
        ids = np.arange(self.robots)
        for name, mine in self.layout._asdict().items():
            mine[:] = get[f"layout.{name}"]
        self._physics.arrange(ids, self.layout)
        self.hidden[:] = get["hidden"]
        self._physics.set_hidden(ids, self.hidden)
        self._rng = [restored_generator(row) for row in get["rng"]]
        pairs = ((self.elapsed, "elapsed"), (self._timer, "timer"), (self._velocity, "velocity"))
        for array, name in pairs:
            array[:] = get[name]
        self._last = get["last"].copy()
        for name, array in self._physics.state.items():
            array[:] = get[f"physics.{name}"]
        self._physics.forward(ids)
        terms = {k[6:]: v.copy() for k, v in get.items() if k.startswith("terms.")}
        step = {k[5:]: v.copy() for k, v in get.items() if k.startswith("step.")}
        self._step = Step(**step, terms=terms)
        return self._step

    def _check_snapshot(self, snapshot: Snapshot) -> None:
        if snapshot.task != self.task.name:
            raise SnapshotError(
                f"The snapshot is of task '{snapshot.task}', this world is '{self.task.name}'."
            )
        for name, mine in self._physics.state.items():
            saved = snapshot.arrays.get(f"physics.{name}")
            if saved is None or saved.shape != mine.shape:
                have = "nothing" if saved is None else f"shape {saved.shape}"
                raise SnapshotError(
                    f"The snapshot has {have} for '{name}', this world of {self.robots} robots"
                    f" needs shape {mine.shape}."
                )
