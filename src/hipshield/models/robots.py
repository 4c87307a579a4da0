"""The motions of this library's robots: rows of one table.

The magnetometer feels a field along the world's −y, so it tells the heading: in the body's frame
the field is −½ (sin θ, cos θ, ·).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax.numpy as jnp

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.models.motion import Motion, plain, planar
from hipshield.worlds.robots import SENSORS
from hipshield.worlds.task import Task

CAR_HISTORY = 2  # steps: wheel speeds are not observed, but the last accelerations tell them
_CHEETAH_SPEED = 8  # the observation's index of the torso's forward velocity


def _slices(robot: str) -> dict[str, slice]:
    """Return which slice of an observation holds which sensor."""
    slices, start = {}, 0
    for name, size in SENSORS[robot]:
        size = 9 if name.startswith("ballquat") else size
        slices[name] = slice(start, start + size)
        start += size
    return slices


def _heading(obs: Any, part: slice) -> Any:
    field = obs[..., part]
    return jnp.arctan2(-field[..., 0], -field[..., 1])


def _point(history: int) -> Motion:
    """Seen: forward and sideways velocity, yaw rate."""
    parts = _slices("point")

    def look(obs: Any, feature: Any) -> tuple[Any, Any, Any]:
        velocity, gyro = obs[..., parts["velocimeter"]], obs[..., parts["gyro"]]
        now = jnp.concatenate([velocity[..., :2], gyro[..., 2:]], -1)
        return feature, _heading(obs, parts["magnetometer"]), now

    return planar("point", actions=2, now=3, look=look, history=history)


def _car(history: int) -> Motion:
    """Seen: velocity, yaw rate and the rear ball's angular velocity, with a short history."""
    parts = _slices("car")

    def look(obs: Any, feature: Any) -> tuple[Any, Any, Any]:
        velocity, gyro = obs[..., parts["velocimeter"]], obs[..., parts["gyro"]]
        ball = obs[..., parts["ballangvel_rear"]]
        now = jnp.concatenate([velocity[..., :2], gyro[..., 2:], ball], -1)
        return feature, _heading(obs, parts["magnetometer"]), now

    return planar("car", actions=2, now=6, look=look, history=history)


def _half_cheetah(history: int) -> Motion:
    """Seen: everything. The forward velocity of a step is guessed to be that of its start."""
    if history:
        raise HipshieldError("The half-cheetah observes all that moves it: it has no history.")
    return plain(
        "half-cheetah",
        actions=6,
        now=17,
        features=1,
        guess=lambda obs: obs[..., _CHEETAH_SPEED : _CHEETAH_SPEED + 1],
    )


def motion_of_robot(robot: str, history: int | None = None) -> Motion:
    """Return the motion of a robot: 'point', 'car' or 'half-cheetah'.

    Args:
        robot: its name.
        history: steps of history in x; default: what its row says.

    Raises:
        HipshieldError: it is not one of this library's robots.
    """
    if robot not in _ROWS:
        raise HipshieldError(
            f"There is no motion of a robot '{robot}' here." + did_you_mean(robot, _ROWS)
            + " Bring your own: see docs/models.md."
        )  # fmt: skip
    make, usual = _ROWS[robot]
    return make(usual if history is None else history)


def motion_of(task: Task) -> Motion:
    """Return the motion of a task's robot."""
    return motion_of_robot(task.robot)


# Kept, so that the same robot is the same object: compiled functions recognise it.
_ROWS: dict[str, tuple[Callable[[int], Motion], int]] = {
    "point": (lru_cache(_point), 0),
    "car": (lru_cache(_car), CAR_HISTORY),
    "half-cheetah": (lru_cache(_half_cheetah), 0),
}
