"""Solid objects of a task (buttons, pillars, the push box) and the sensors of their touches."""

import mujoco

from hipshield.worlds.robots import AGENT, CONDIM, DENSITY
from hipshield.worlds.task import ButtonObjective, PushObjective, Task

_GEOM = mujoco.mjtGeom

BOX = "push_box"
_FOUND = 1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND)  # report how many contacts match


def add_objects(spec: mujoco.MjSpec, task: Task) -> None:
    """Add what the robot can collide with."""
    if isinstance(task.objective, ButtonObjective):
        _add_buttons(spec, task, task.objective)
    for i in range(task.pillars.count):
        size = [task.pillars.radius, task.pillars.half_height, 0]
        _add_static(spec, task, f"pillar{i}", _GEOM.mjGEOM_CYLINDER, size)
    if isinstance(task.objective, PushObjective):
        _add_box(spec, task.objective)


def _add_static(
    spec: mujoco.MjSpec, task: Task, name: str, kind: mujoco.mjtGeom, size: list[float]
) -> None:
    """Add an immovable object that stands on the floor; a layout says where."""
    height = size[1] if kind == _GEOM.mjGEOM_CYLINDER else size[0]
    body = spec.worldbody.add_body(name=name, pos=[0, 0, height])
    body.add_geom(name=name, type=kind, size=size, density=DENSITY[task.robot], condim=CONDIM)


def _add_buttons(spec: mujoco.MjSpec, task: Task, objective: ButtonObjective) -> None:
    for i in range(objective.count):
        _add_static(spec, task, f"button{i}", _GEOM.mjGEOM_SPHERE, [objective.radius] * 3)
        # Counts the contacts between any part of the robot and this button.
        spec.add_sensor(
            name=f"touch{i}",
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=mujoco.mjtObj.mjOBJ_XBODY,
            objname=AGENT,
            reftype=mujoco.mjtObj.mjOBJ_GEOM,
            refname=f"button{i}",
            intprm=[_FOUND, 0, 1],
        )


def _add_box(spec: mujoco.MjSpec, objective: PushObjective) -> None:
    """A light box with four corner posts, so that it can be pushed without turning away."""
    half = objective.box_half_size
    common = {
        "type": _GEOM.mjGEOM_BOX,
        "density": objective.box_density,
        "condim": CONDIM,
    }
    body = spec.worldbody.add_body(name=BOX, pos=[0, 0, half])
    body.add_freejoint(name=BOX)
    body.add_geom(name=BOX, size=[half] * 3, **common)
    for i, (x, y) in enumerate(((1, 1), (-1, 1), (1, -1), (-1, -1))):
        body.add_geom(
            name=f"post{i}",
            size=[half / 2, half / 2, half],
            pos=[x * half, y * half, 0],
            **common,
        )
