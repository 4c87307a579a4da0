"""Rewards: named terms of each objective, from where things are after a step.

Every function is pure and takes a `View` of a batch. `reward_terms` returns a dict of terms whose
sum, clipped, is the reward, so a term is never hidden in a total. This is NumPy, not JAX: a
compiler adds up in another order for another batch size, and a robot shall earn the same bits
alone and in a batch.
"""

from typing import Any, NamedTuple

import numpy as np

from hipshield.worlds.task import (
    ButtonObjective,
    CircleObjective,
    GoalObjective,
    PushObjective,
    Task,
)


class View(NamedTuple):
    """What sensing and rewards see of a batch of robots, one row a robot.

    Attributes:
        position: of the robot's body, shape (robots, 3), metres.
        rotation: columns are the body's axes in the world, shape (robots, 3, 3).
        sensors: raw sensor values, in the order of `robots.SENSORS`; for the half-cheetah its
            generalised positions but the first, and velocities.
        velocity: forward velocity over the step, shape (robots,); only the half-cheetah's is used.
        touched: contacts between the robot and each button, shape (robots, buttons).
        box: the push box, shape (robots, 3).
        hazards, buttons, pillars: centres, shape (robots, count, 2).
        goal: x, y, shape (robots, 2).
        goal_button: index, shape (robots,).
        timer: steps for which the buttons stay invisible, shape (robots,).
        last: distances before the step (see `distances`), shape (robots, 2).
        action: what was done, shape (robots, actions).
    """

    position: Any
    rotation: Any
    sensors: Any
    velocity: Any
    touched: Any
    box: Any
    hazards: Any
    buttons: Any
    pillars: Any
    goal: Any
    goal_button: Any
    timer: Any
    last: Any
    action: Any


def marker_height(radius: float) -> float:
    """Height of a goal marker's centre above the floor: it floats a centimetre above it."""
    return radius / 2 + 0.01


def distances(task: Task, view: View) -> np.ndarray:
    """Return the two distances whose decrease earns reward, shape (robots, 2).

    They are (robot–target, box–goal). Goal and Button: horizontal, and the second is 0. Push:
    three-dimensional, to the box first.
    """
    robots = len(view.position)
    if isinstance(task.objective, PushObjective):
        height = np.full((robots, 1), marker_height(task.objective.radius))
        goal = np.concatenate([view.goal, height], axis=1)
        return np.stack([_norm(view.box - view.position), _norm(view.box - goal)], axis=1)
    if isinstance(task.objective, GoalObjective | ButtonObjective):
        return np.stack([_norm(view.goal - view.position[:, :2]), np.zeros(robots)], axis=1)
    return np.zeros((robots, 2))


def achieved(task: Task, view: View, now: np.ndarray) -> np.ndarray:
    """Tell whose goal is met, given the present `distances`; shape (robots,)."""
    if isinstance(task.objective, GoalObjective):
        return now[:, 0] <= task.objective.radius
    if isinstance(task.objective, ButtonObjective):
        return view.touched[np.arange(len(now)), view.goal_button] > 0
    if isinstance(task.objective, PushObjective):
        return now[:, 1] <= task.objective.radius
    return np.zeros(len(now), bool)


def reward_terms(task: Task, view: View, now: np.ndarray, met: np.ndarray) -> dict[str, np.ndarray]:
    """Return the reward's terms by name, each of shape (robots,)."""
    objective, closer = task.objective, view.last - now
    if isinstance(objective, GoalObjective | ButtonObjective):
        return {
            "distance": objective.distance_weight * closer[:, 0],
            "bonus": objective.bonus * met,
        }
    if isinstance(objective, PushObjective):
        return {
            "box_distance": objective.box_distance_weight * closer[:, 0],
            "goal_distance": objective.goal_distance_weight * closer[:, 1],
            "bonus": objective.bonus * met,
        }
    if isinstance(objective, CircleObjective):
        return {"circling": _circling(objective, view)}
    return {
        "forward": objective.forward_weight * view.velocity,
        "control": -objective.control_weight * _squares(view.action),
    }


def total_reward(task: Task, terms: dict[str, np.ndarray]) -> np.ndarray:
    """Return the clipped sum of a reward's terms."""
    total = sum(terms.values(), start=np.zeros(()))
    return np.clip(total, -task.reward_limit, task.reward_limit)


def _circling(objective: CircleObjective, view: View) -> np.ndarray:
    """Speed along the circle, weighted down away from it; zero at the very centre."""
    x, y = view.position[:, 0], view.position[:, 1]
    # The velocimeter sits at the body's origin and reads in the body's frame.
    own = view.sensors[:, 3:6]
    u, v = (sum(view.rotation[:, row, k] * own[:, k] for k in range(3)) for row in (0, 1))
    radius = np.sqrt(x * x + y * y)
    around = np.divide(v * x - u * y, radius, out=np.zeros_like(radius), where=radius > 0)
    return objective.weight * around / (1 + np.abs(radius - objective.radius))


def _squares(vectors: np.ndarray) -> np.ndarray:
    """Sum of squares of each row, added column by column: np.sum's order depends on the shape."""
    return sum((c * c for c in vectors.T[1:]), start=vectors[:, 0] ** 2)


def _norm(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(_squares(vectors))
