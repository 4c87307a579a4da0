"""Policies without learning: for demonstrations, benchmarks and first data.

A scripted policy looks at the world itself (places, headings, velocities), not at observations,
so it is a guide's policy, not an agent's. Each is a function of a `World` that returns actions of
shape (robots, actions).
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from hipshield.errors import TaskError, did_you_mean
from hipshield.worlds.objectives import View
from hipshield.worlds.task import CircleObjective, PushObjective, RunObjective
from hipshield.worlds.world import World

Policy = Callable[[World], np.ndarray]

_AVOID = 0.6  # metres from a hazard's centre at which the driver begins to turn away
_CRUISE = {"point": 0.9, "car": 0.6}  # wanted speed, metres per second
_SLOW_DOWN = 0.5  # metres before the target at which the driver slows down

# A gait found by hand: legs swing in opposite phase, knees and ankles lag behind the hips.
_GAIT_FREQUENCY = 2.4  # strides a second
_GAIT_PHASE = np.array([0.0, 0.9, 1.8, 3.4, 4.3, 5.2])
_GAIT_SIZE = np.array([0.8, 0.7, 0.5, 0.8, 0.7, 0.5])


def idle(world: World) -> np.ndarray:
    """Do nothing."""
    return np.zeros((world.robots, world.actions))


def make_random(seed: int = 0) -> Policy:
    """Return the policy that draws every action uniformly."""
    rng = np.random.default_rng(seed)
    return lambda world: rng.uniform(-1.0, 1.0, (world.robots, world.actions))


def drive(world: World) -> np.ndarray:
    """Drive to where the task's reward is, around hazards and pillars. The half-cheetah runs."""
    if isinstance(world.task.objective, RunObjective):
        return _gait(world)
    view = world.view()
    front = view.rotation[:, :2, 0] if world.task.robot == "point" else -view.rotation[:, :2, 1]
    here = view.position[:, :2]
    velocity = np.einsum("rij,rj->ri", view.rotation, view.sensors[:, 3:6])[:, :2]
    target = _target(world, view)
    distance = np.linalg.norm(target - here, axis=1, keepdims=True)
    way = (target - here) / np.maximum(distance, 1e-9) + _push_away(world, view)
    way /= np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-9)
    hurry = np.clip(distance / _SLOW_DOWN, 0.3, 1.0)
    wanted = way * _CRUISE[world.task.robot] * hurry
    return _steer(world.task.robot, front, velocity, wanted)


def _target(world: World, view: View) -> np.ndarray:
    """Return the point to drive to, shape (robots, 2)."""
    objective, here = world.task.objective, view.position[:, :2]
    if isinstance(objective, CircleObjective):
        angle = np.arctan2(here[:, 1], here[:, 0]) + 0.6
        radius = 0.85 * min(objective.radius, objective.wall or objective.radius)
        return radius * np.stack([np.cos(angle), np.sin(angle)], 1)
    if not isinstance(objective, PushObjective):
        return view.goal
    # Get behind the box, seen from the goal; from there, drive through it.
    box = view.box[:, :2]
    aim = view.goal - box
    aim = aim / np.maximum(np.linalg.norm(aim, axis=1, keepdims=True), 1e-9)
    behind = box - aim * (1.5 * objective.box_half_size + 0.25)
    offset = here - box
    aligned = (-offset * aim).sum(1) > 0.9 * np.linalg.norm(offset, axis=1)
    return np.where(aligned[:, None], view.goal, behind)


def _push_away(world: World, view: View) -> np.ndarray:
    """Return a push away from near hazards and pillars, and along their side, (robots, 2)."""
    things = np.concatenate([view.hazards, view.pillars], axis=1)
    if not things.shape[1]:
        return np.zeros((world.robots, 2))
    offset = view.position[:, None, :2] - things
    distance = np.linalg.norm(offset, axis=2, keepdims=True)
    strength = np.clip((_AVOID - distance) / (_AVOID - world.task.hazards.radius), 0, 1.5)
    away = offset / np.maximum(distance, 1e-9)
    aside = np.stack([-away[..., 1], away[..., 0]], -1)
    return (strength * (1.5 * away + 0.8 * aside)).sum(1)


def _steer(robot: str, front: np.ndarray, velocity: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Turn towards the change of velocity that is wanted, and push as far as it is ahead."""
    change = wanted - velocity
    pull = wanted if robot == "car" else wanted + change  # the point has no grip: it drifts
    ahead = (pull * front).sum(1)
    left = front[:, 0] * pull[:, 1] - front[:, 1] * pull[:, 0]
    turn = np.clip(np.arctan2(left, ahead) * 1.5, -1, 1)
    push = np.clip((change * front).sum(1) * 3, -1, 1) * (np.abs(turn) < 0.9)
    if robot == "point":
        return np.stack([push, turn], 1)
    return np.clip(np.stack([push + 0.5 * turn, push - 0.5 * turn], 1), -1, 1)


def _gait(world: World) -> np.ndarray:
    time = world.elapsed[:, None] * world.seconds_per_step
    return _GAIT_SIZE * np.sin(2 * np.pi * _GAIT_FREQUENCY * time + _GAIT_PHASE)


POLICIES: dict[str, Callable[[int], Policy]] = {
    "random": make_random,
    "scripted": lambda seed: drive,
    "idle": lambda seed: idle,
}


def find_policy(name: str, seed: int = 0) -> Policy:
    """Return a policy by name: 'random', 'scripted' or 'idle'."""
    if name not in POLICIES:
        raise TaskError(f"Unknown policy '{name}'." + did_you_mean(name, POLICIES))
    return partial(POLICIES[name](seed))
