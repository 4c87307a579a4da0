"""Checks of what callers of a world give, with messages that say what to do."""

from typing import Any

import numpy as np

from hipshield.errors import ActionError, TaskError
from hipshield.worlds.task import Task


def robot_ids(chosen: Any, robots: int) -> np.ndarray:
    """Return sorted indices of the chosen robots: None for all, indices, or a mask."""
    if chosen is None:
        return np.arange(robots)
    chosen = np.asarray(chosen)
    if chosen.dtype == bool and chosen.shape != (robots,):
        raise TaskError(f"A mask of robots must have shape ({robots},), got {chosen.shape}.")
    ids = np.flatnonzero(chosen) if chosen.dtype == bool else np.unique(chosen)
    if len(ids) and (ids[0] < 0 or ids[-1] >= robots):
        raise TaskError(f"Robots are numbered 0 to {robots - 1}, got {ids.tolist()}.")
    return ids


def hidden_values(hidden: Any, robots: int, task: Task) -> np.ndarray:
    """Return φ of shape (robots, parameters)."""
    names = [p.name for p in task.hidden]
    try:
        values = np.broadcast_to(np.asarray(hidden, float), (robots, len(names)))
    except (TypeError, ValueError):
        raise TaskError(
            f"Hidden parameters must have shape ({len(names)},) or ({robots}, {len(names)})"
            f" for {names}, got {np.shape(hidden)}."
        ) from None
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise TaskError(f"Hidden parameters {names} must be positive and finite.")
    return values


def action_rows(actions: Any, robots: int, size: int) -> np.ndarray:
    """Return actions of shape (robots, size)."""
    try:
        array = np.asarray(actions, dtype=float)
    except (TypeError, ValueError):
        raise ActionError(f"Actions must be numbers, got {actions!r}.") from None
    if array.shape != (robots, size):
        raise ActionError(
            f"Actions must have shape ({robots}, {size}): one row a robot, {size} values each."
            f" Got {array.shape}."
        )
    return array


def seed_list(seed: Any, ids: np.ndarray) -> list[int]:
    """Return one seed a robot: `seed + i`, or the seeds given."""
    if isinstance(seed, int | np.integer):
        return [int(seed) + int(i) for i in ids]
    if len(seed) != len(ids):
        raise TaskError(f"{len(seed)} seeds were given for {len(ids)} robots.")
    return list(seed)
