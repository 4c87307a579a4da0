"""The named tasks: rows of one table.

Eight navigation tasks, (Point, Car) × (Goal, Button, Push, Circle), in two levels, and
HalfCheetah-Velocity. Level 1 is what policies train on; level 2 adds two hazards (Circle: the
same layout) and is what they are tested on out of distribution.

A task is found by its short name ('point-goal', level given apart or as 'point-goal-2') or by
its Gymnasium id ('hipshield/PointGoal2-v0').
"""

import re
from dataclasses import replace

from hipshield.errors import TaskError, did_you_mean
from hipshield.worlds.hidden import Parameter
from hipshield.worlds.task import (
    CHEETAH_HIDDEN,
    PHYSICS,
    ButtonObjective,
    CircleObjective,
    GoalObjective,
    Hazards,
    Lidar,
    Pillars,
    PushObjective,
    RunObjective,
    Start,
    Task,
)

LEVELS = (1, 2)


def _goal(robot: str, level: int) -> Task:
    hazards = Hazards(count={1: 6, 2: 8}[level])
    return Task(f"{robot}-goal", robot, GoalObjective(), hazards=hazards)


def _button(robot: str, level: int) -> Task:
    hazards = Hazards(count={1: 6, 2: 8}[level])
    return Task(f"{robot}-button", robot, ButtonObjective(), hazards=hazards)


def _push(robot: str, level: int) -> Task:
    size, density = {"point": (0.2, 0.001), "car": (0.125, 0.0005)}[robot]
    return Task(
        f"{robot}-push",
        robot,
        PushObjective(box_half_size=size, box_density=density, box_keepout=size),
        hazards=Hazards(count={1: 2, 2: 4}[level], keepout=0.4),
        pillars=Pillars(count=1),
    )


def _circle(robot: str, level: int) -> Task:
    del level  # the layout is the same: the walls already block all four sides
    # Low damping makes the simulated circling unstable, so its test range lies above only.
    hidden = tuple(
        Parameter(n, ood=((1.7, 2.5),)) if n == "damping" else Parameter(n) for n in PHYSICS
    )
    return Task(
        f"{robot}-circle",
        robot,
        CircleObjective(),
        hidden=hidden,
        start=Start(keepout=0.0, extents=(-0.8, -0.8, 0.8, 0.8)),
        extents=(-2.0, -2.0, 2.0, 2.0),
        lidar=Lidar(reach=6.0),
        episode_steps=500,
    )


def _velocity(robot: str, level: int) -> Task:
    del level  # there is no layout
    ranges = dict(train=((0.7, 1.3),), ood=((0.4, 0.7), (1.3, 1.6)))
    hidden = tuple(Parameter(n, **ranges) for n in CHEETAH_HIDDEN)
    return Task(f"{robot}-velocity", robot, RunObjective(), hidden=hidden)


_FAMILIES = {
    **{f"{r}-{t}": (r, make) for r in ("point", "car") for t, make in
       (("goal", _goal), ("button", _button), ("push", _push), ("circle", _circle))},
    "half-cheetah-velocity": ("half-cheetah", _velocity),
}  # fmt: skip

TASK_NAMES = tuple(_FAMILIES)


def find_task(name: str, level: int | None = None) -> Task:
    """Return a named task.

    Args:
        name: 'point-goal', 'point-goal-2' or 'hipshield/PointGoal2-v0'.
        level: 1 or 2; default: what the name says, else 1.

    Raises:
        TaskError: no such task (naming the nearest one), or no such level.
    """
    base, named_level = _split_name(name)
    if base not in _FAMILIES:
        raise TaskError(f"Unknown task '{name}'." + did_you_mean(base, TASK_NAMES))
    level = level or named_level or 1
    if level not in LEVELS:
        raise TaskError(f"Task '{base}' has levels 1 and 2, not {level}.")
    robot, make = _FAMILIES[base]
    task = make(robot, level)
    return task if level == 1 else replace(task, name=f"{task.name}-{level}")


def base_name(name: str) -> str:
    """Return a task's name without its level: 'point-goal' of 'point-goal-2'."""
    return _split_name(name)[0]


def _split_name(name: str) -> tuple[str, int | None]:
    """Read a short name or a Gymnasium id as (family, level or None)."""
    text = re.sub(r"-v\d+$", "", name.removeprefix("hipshield/"))
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", text).lower()
    match = re.fullmatch(r"(.*?)-?(\d+)", text)
    return (match[1], int(match[2])) if match else (text, None)


def gymnasium_id(name: str, level: int) -> str:
    """Return the Gymnasium id of a family and level: 'hipshield/PointGoal1-v0'."""
    return f"hipshield/{''.join(part.capitalize() for part in name.split('-'))}{level}-v0"
