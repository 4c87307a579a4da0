"""The physics of a batch of robots: one MuJoCo model each, stepped by native threads.

`Physics` owns the threads. It is MuJoCo's own `mujoco.batch`: one call advances every robot by
one environment step, each with its own hidden parameters and layout, and a robot's numbers do
not depend on the number of threads or on who else is in the batch. `docs/decisions.md` says how
that compares with `mujoco.rollout` and with one thread pool of our own.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError

from hipshield.errors import TaskError
from hipshield.worlds import cheetah, robots
from hipshield.worlds.layout import Layout
from hipshield.worlds.objects import BOX, add_objects
from hipshield.worlds.task import (
    CHEETAH_MOTORS,
    CHEETAH_SEGMENTS,
    ButtonObjective,
    PushObjective,
    RunObjective,
    Task,
)

_NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)

# What a multiplier scales. Whole arrays: the box and static bodies too, as was recorded.
SCALED = {
    "gravity": "opt.gravity",
    "damping": "dof_damping",
    "mass": "body_mass",
    "inertia": "body_inertia",
    "friction": "geom_friction",
}

STATE = ("time", "qpos", "qvel", "qacc_warmstart", "ctrl")


@dataclass(frozen=True)
class Machine:
    """What differs between the robots that drive and the one that runs.

    Attributes:
        substeps: physics steps in one environment step, all with the same control.
        senses: whether MuJoCo's sensors at the new state are observed.
        spec: builds the model of a task.
    """

    substeps: int
    senses: bool
    spec: Callable[[Task], mujoco.MjSpec]


def _driving_spec(task: Task) -> mujoco.MjSpec:
    spec = robots.new_spec(task.robot)
    robots.add_robot(spec, task)
    add_objects(spec, task)
    return spec


def machine_of(task: Task) -> Machine:
    """Return the machine that a task's robot is."""
    if isinstance(task.objective, RunObjective):
        return Machine(cheetah.SUBSTEPS, False, lambda _: cheetah.new_spec())
    return Machine(robots.SUBSTEPS, True, _driving_spec)


def check_threads(threads: int | None) -> int:
    """Return the number of threads to use: as given, or one per core."""
    if threads is None:
        return os.cpu_count() or 1
    if threads < 1:
        raise TaskError(f"threads must be at least 1, got {threads}.")
    return threads


class Physics:
    """The simulations of a batch: owns MuJoCo's threads, and the models' arrays.

    Attributes:
        model: the model of multipliers 1, that every robot's own is derived from.
        state: `STATE` name -> live array, one row a robot: a write is the state of the next step.
    """

    def __init__(self, task: Task, robots_: int, threads: int | None = None) -> None:
        self.task = task
        self.machine = machine_of(task)
        self.model = self.machine.spec(task).compile()
        self.batch = Batch(self.model, robots_, check_threads(threads))
        self.state = {name: self.batch.bind(name) for name in STATE}
        self.names = tuple(p.name for p in task.hidden)
        self._fields = {f: self.batch.expand(f) for f in self._varying_fields()}
        self._base = {f: np.array(a[0]) for f, a in self._fields.items()}
        self.batch.set_const()  # makes the derived constants every robot's own, once
        self.driving = self.machine.senses
        if self.driving:
            self._bind_driving()

    def _bind_driving(self) -> None:
        self.agent = self.model.body(robots.AGENT).id
        self.xpos = self.batch.bind("xpos")
        self.xmat = self.batch.bind("xmat").reshape(len(self.xpos), -1, 3, 3)
        self.sensors = self.batch.bind("sensordata")
        self._flags = self.batch.expand("opt.disableflags")
        self._awake = np.array(self._flags)

    def _varying_fields(self) -> list[str]:
        """Return the model fields that differ between the robots of a batch."""
        fields = [SCALED[n] for n in self.names if n in SCALED]
        if isinstance(self.task.objective, RunObjective):
            if any(n.endswith("_length") for n in self.names):
                ones = np.ones((1, len(CHEETAH_SEGMENTS)))
                fields += list(cheetah.lengthened(self.model, ones))
            if any(n.endswith("_gear") for n in self.names):
                fields.append("actuator_gear")
            return fields
        return [*fields, "body_pos", "body_quat"]

    def set_hidden(self, ids: np.ndarray, values: np.ndarray) -> None:
        """Give robots their hidden parameters, and refresh what MuJoCo derives from them.

        Args:
            ids: which robots, shape (n,), sorted.
            values: φ, shape (n, parameters).
        """
        given = dict(zip(self.names, values.T, strict=True))
        for name, field in SCALED.items():
            if name in given:
                base = self._base[field]
                scale = given[name].reshape(-1, *[1] * base.ndim)
                self._fields[field][ids] = base * scale
        if isinstance(self.task.objective, RunObjective):
            self._set_cheetah(ids, given)
        self.batch.set_const(ids)

    def _set_cheetah(self, ids: np.ndarray, given: dict[str, np.ndarray]) -> None:
        ones = np.ones(len(ids))
        lengths = [given.get(f"{s}_length", ones) for s in CHEETAH_SEGMENTS]
        if any(n.endswith("_length") for n in given):
            for field, value in cheetah.lengthened(self.model, np.stack(lengths, 1)).items():
                self._fields[field][ids] = value
        for i, motor in enumerate(CHEETAH_MOTORS):
            if f"{motor}_gear" in given:
                base = self._base["actuator_gear"][i]
                self._fields["actuator_gear"][ids, i] = base * given[f"{motor}_gear"][:, None]

    def arrange(self, ids: np.ndarray, layout: Layout) -> None:
        """Put the immovable bodies of robots' worlds where a batch of layouts has them."""
        if not self.driving:
            return
        pos, quat = self._fields["body_pos"], self._fields["body_quat"]
        for kind in ("button", "pillar"):
            centres = getattr(layout, f"{kind}s")
            for i in range(centres.shape[1]):
                pos[ids, self.model.body(f"{kind}{i}").id, :2] = centres[:, i]
        if self.task.robot == "point":  # its slides run along the axes of its start frame
            pos[ids, self.agent, :2] = layout.robot[:, :2]
            quat[ids, self.agent] = turned(layout.robot[:, 2])

    def place(self, ids: np.ndarray, layout: Layout) -> None:
        """Set robots (and boxes) at rest at the start of a batch of layouts."""
        qpos = np.tile(self.model.qpos0, (len(ids), 1))
        if self.task.robot == "car":
            qpos[:, :2] = layout.robot[:, :2]
            qpos[:, 3:7] = turned(layout.robot[:, 2])
        if isinstance(self.task.objective, PushObjective):
            at = self.model.joint(BOX).qposadr[0]
            qpos[:, at : at + 2] = layout.box[:, :2]
            qpos[:, at + 3 : at + 7] = turned(layout.box[:, 2])
        for array in self.state.values():
            array[ids] = 0
        self.state["qpos"][ids] = qpos

    def forward(self, ids: np.ndarray) -> None:
        """Compute sensors at the present state, without a step."""
        if self.driving:
            warm = self.state["qacc_warmstart"][ids].copy()
            self.batch.forward(ids)
            self.state["qacc_warmstart"][ids] = warm

    def advance(self, actions: np.ndarray, ids: np.ndarray | None) -> np.ndarray:
        """Step robots; a simulation that diverges keeps the state it had before.

        Args:
            actions: shape (robots, actions); rows not in `ids` are not read.
            ids: which robots, or None for all.

        Returns:
            Which robots have a new, finite state, shape (robots,).
        """
        before = self.batch.state.copy()
        moved = np.ones(len(before), bool)
        if ids is None:
            self.state["ctrl"][:] = actions
        else:
            moved[:] = False
            moved[ids] = True
            self.state["ctrl"][ids] = actions[ids]
        moved[self._step(ids)] = False
        sound = np.isfinite(self.batch.state).all(1)
        if not sound.all():
            self.batch.state[~sound] = before[~sound]
            moved &= sound
        return moved

    def _step(self, ids: np.ndarray | None) -> np.ndarray:
        """Take the substeps, then compute the sensors of the new state; return who failed.

        Sensors of the states in between, which nobody sees, would cost 4 %.
        """
        steps = partial(self.batch.step, ids, nstep=self.machine.substeps)
        if not self.driving:
            return _failures(steps)
        self._flags[:] = self._awake | _NO_SENSORS
        try:
            failed = _failures(steps)
        finally:
            self._flags[:] = self._awake
        return np.concatenate([failed, _failures(partial(self.batch.forward, ids))])

    def touches(self) -> np.ndarray:
        """Return the number of contacts with each button, shape (robots, buttons)."""
        objective = self.task.objective
        count = objective.count if isinstance(objective, ButtonObjective) else 0
        width = self.sensors.shape[1]
        return self.sensors[:, width - count :]

    def box(self) -> np.ndarray:
        """Return the push boxes' positions, shape (robots, 3); zeros when there are none."""
        if isinstance(self.task.objective, PushObjective):
            return self.xpos[:, self.model.body(BOX).id]
        return np.zeros((len(self.xpos), 3))

    def models(self, ids: Sequence[int]) -> list[mujoco.MjModel]:
        """Return copies of robots' own models, for rendering and for tests."""
        return [self.batch.get_model(i) for i in ids]


def _failures(call: Callable[[], None]) -> np.ndarray:
    """Call MuJoCo; return the indices of simulations that raised, which keep their state."""
    try:
        call()
    except SimulationError as error:
        return error.ids
    return np.zeros(0, int)


def turned(angle: np.ndarray) -> np.ndarray:
    """Return quaternions (w, x, y, z) that turn about z, shape (n, 4)."""
    zero = np.zeros_like(angle)
    return np.stack([np.cos(angle / 2), zero, zero, np.sin(angle / 2)], axis=-1)
