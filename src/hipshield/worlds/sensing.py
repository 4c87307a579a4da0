"""From states to what an agent sees: observation and margin.

One jitted function of a batch of `View`s, compiled once for a task and a batch size
(`trace_counts` lets a test see that). It computes in 64 bits, because a cost is a threshold, and
packs its results into one array, because for few robots the transfers would cost more than the
arithmetic.
"""

import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hipshield.worlds.margins import Scene, margin
from hipshield.worlds.objectives import View
from hipshield.worlds.robots import SENSORS
from hipshield.worlds.task import (
    ButtonObjective,
    CircleObjective,
    GoalObjective,
    Lidar,
    PushObjective,
    RunObjective,
    Task,
)

trace_counts: Counter[tuple[str, int]] = Counter()  # (task name, robots) -> compilations


def feature_of(task: Task, view: View) -> Any:
    """Return e(s): the position in the plane, or the forward velocity."""
    if isinstance(task.objective, RunObjective):
        return view.velocity[..., None]
    return view.position[..., :2]


def lidar(settings: Lidar, centres: Any, view: View) -> Any:
    """Return the readings of one lidar, shape (bins,).

    A reading is max(0, D − distance) / D in the bin of the object's direction; each bin keeps
    its largest. Aliasing: it also reaches the two neighbouring bins, weighted by the fraction of
    the bin's angle towards the upper one and by the rest towards the lower one.

    Args:
        settings: number of bins and reach D.
        centres: objects on the floor, shape (count, 2).
        view: whose lidar it is.
    """
    bins = settings.bins
    offset = jnp.concatenate([centres, jnp.zeros((len(centres), 1))], 1) - view.position
    ahead = (offset @ view.rotation)[:, :2]
    distance = jnp.sqrt(ahead[:, 0] ** 2 + ahead[:, 1] ** 2)
    turns = jnp.mod(jnp.arctan2(ahead[:, 1], ahead[:, 0]), 2 * jnp.pi) / (2 * jnp.pi / bins)
    centre = jnp.floor(turns)
    part = (turns - centre)[:, None]
    centre = centre.astype(int)[:, None] % bins
    index = jnp.arange(bins)
    weight = jnp.where(index == centre, 1.0, 0.0)
    if settings.alias:
        weight = jnp.maximum(weight, jnp.where(index == (centre + 1) % bins, part, 0.0))
        weight = jnp.maximum(weight, jnp.where(index == (centre - 1) % bins, 1 - part, 0.0))
    reading = jnp.maximum(0.0, settings.reach - distance) / settings.reach
    return (weight * reading[:, None]).max(0, initial=0.0)


def _quaternion_matrix(quat: Any) -> Any:
    """Return the rotation matrix of a unit quaternion (w, x, y, z), flattened row by row."""
    w, x, y, z = quat
    return jnp.stack([
        w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z,
    ])  # fmt: skip


def _parts(task: Task, view: View) -> dict[str, Any]:
    """Return the observation's parts by name, in its order."""
    if isinstance(task.objective, RunObjective):
        joints = (len(view.sensors) - 1) // 2
        return {"positions": view.sensors[:joints], "velocities": view.sensors[joints:]}
    parts, start = {}, 0
    for name, size in SENSORS[task.robot]:
        value = view.sensors[start : start + size]
        parts[name] = _quaternion_matrix(value) if name.startswith("ballquat") else value
        start += size
    sense = partial(lidar, task.lidar, view=view)
    if isinstance(task.objective, ButtonObjective):
        seen = sense(view.buttons)
        parts["buttons_lidar"] = jnp.where(view.timer > 0, 0.0, seen)
    if isinstance(task.objective, GoalObjective | ButtonObjective | PushObjective):
        parts["goal_lidar"] = sense(view.goal[None])
    if isinstance(task.objective, CircleObjective):
        parts["circle_lidar"] = sense(jnp.zeros((1, 2)))
    if task.hazards.count:
        parts["hazards_lidar"] = sense(view.hazards)
    if task.pillars.count:
        parts["pillars_lidar"] = sense(view.pillars)
    if isinstance(task.objective, PushObjective):
        parts["push_box_lidar"] = sense(view.box[None, :2])
    return parts


# What sensing reads of a view, and of a scene: the rest is the rewards' business.
_VIEWED = (
    *("position", "rotation", "sensors", "velocity", "box", "hazards", "buttons", "pillars"),
    *("goal", "timer"),
)
Shapes = tuple[tuple[int, ...], ...]


@lru_cache
def _compiled(task: Task, shapes: Shapes) -> Callable[[Any], Any]:
    """Return the packed, batched, jitted sensing of a task: one for all worlds of it."""

    def look_one(row: Any) -> Any:
        values, start = [], 0
        for shape in shapes:
            size = math.prod(shape)
            values.append(row[start : start + size].reshape(shape))
            start += size
        seen = dict(zip(_VIEWED, values, strict=False))
        unseen = dict.fromkeys(set(View._fields) - set(_VIEWED))
        scene = Scene(seen["hazards"], *values[len(_VIEWED) :])
        view = View(**seen, **unseen)
        nu = margin(feature_of(task, view), scene)
        return jnp.concatenate([nu[None], *_parts(task, view).values()])

    def look(packed: Any) -> Any:
        trace_counts[task.name, len(packed)] += 1
        return jax.vmap(look_one)(packed)

    return jax.jit(look)


def look(task: Task, view: View, scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Return the observations, shape (robots, size), and margins, (robots,), of a batch.

    What is seen travels as one array: handing JAX seventeen small ones took longer than sensing.
    """
    robots = len(view.position)
    arrays = [*(getattr(view, name) for name in _VIEWED), scene.radius, scene.wall, scene.speed]
    shapes = tuple(a.shape[1:] for a in arrays)
    packed = np.concatenate([a.reshape(robots, math.prod(a.shape[1:])) for a in arrays], axis=1)
    with jax.enable_x64(True):
        seen = np.asarray(_compiled(task, shapes)(packed))
    return seen[:, 1:].copy(), seen[:, 0].copy()


def observation_parts(task: Task, view: View) -> dict[str, slice]:
    """Return which slice of an observation holds which part."""
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), view)
    names: list[str] = []

    def values(view: View) -> list[Any]:
        parts = _parts(task, view)
        names.extend(parts)  # JAX sorts the keys of dicts; the observation's order is ours
        return list(parts.values())

    with jax.enable_x64(True):
        shapes = jax.eval_shape(values, one)
    slices, start = {}, 0
    for name, part in zip(names, shapes, strict=True):
        slices[name] = slice(start, start + part.size)
        start += part.size
    return slices
