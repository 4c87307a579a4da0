"""Layouts: where a task's objects and its robot are at the start of an episode.

Each object in turn is drawn uniformly in its extents, shrunk by its keep-out, until its distance
to each object placed before is at least the sum of the two keep-outs. After 100 failures the
whole layout is drawn again. A new goal is drawn the same way against all objects at their
present places. Plain floats and a short loop: a layout takes some tens of microseconds, and
drawing for one robot at a time is what makes a robot's episode independent of its batch.
"""

import math
from typing import NamedTuple

import numpy as np

from hipshield.errors import LayoutError
from hipshield.worlds.task import (
    Box2D,
    ButtonObjective,
    GoalObjective,
    PushObjective,
    RunObjective,
    Task,
    placements,
)

TRIES_PER_OBJECT = 100
TRIES_PER_LAYOUT = 2000
TRIES_PER_GOAL = 10_000

Place = tuple[float, float, float]  # x, y, keep-out

_BLOCK = 64  # random numbers fetched at once: a call for each would cost more than the geometry


class Layout(NamedTuple):
    """A start layout of one robot, or of a batch of them along the first axis.

    Attributes:
        robot: x, y and heading, shape (3,).
        hazards, buttons, pillars: centres, shape (count, 2).
        box: x, y and rotation of the push box, shape (3,); zeros when there is none.
        goal: x, y of the goal, shape (2,); zeros when there is none.
        goal_button: index of the goal button, shape (); 0 when there is none.
    """

    robot: np.ndarray
    hazards: np.ndarray
    buttons: np.ndarray
    pillars: np.ndarray
    box: np.ndarray
    goal: np.ndarray
    goal_button: np.ndarray


class _Uniform:
    """Uniform numbers from a generator, fetched in blocks."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.block: list[float] = []

    def inside(self, extents: Box2D, keepout: float) -> tuple[float, float]:
        """Return a point that keeps its keep-out inside the extents."""
        if len(self.block) < 2:
            self.block = self.rng.random(_BLOCK).tolist()
        x0, y0, x1, y1 = extents
        u, v = self.block.pop(), self.block.pop()
        return (
            x0 + keepout + u * (x1 - x0 - 2 * keepout),
            y0 + keepout + v * (y1 - y0 - 2 * keepout),
        )


def _clearance(x: float, y: float, keepout: float, placed: list[Place]) -> float:
    """Return by how much the nearest placed object stays clear; negative means a conflict."""
    best = math.inf
    for px, py, pk in placed:
        gap = math.hypot(x - px, y - py) - pk - keepout
        if gap < best:
            best = gap
    return best


def _place_all(task: Task, draw: _Uniform) -> tuple[list[Place], str]:
    """Place every object once; return the places and the kind that found none, or ''."""
    placed: list[Place] = []
    for kind, keepout, extents in placements(task):
        for _ in range(TRIES_PER_OBJECT):
            x, y = draw.inside(extents, keepout)
            if _clearance(x, y, keepout, placed) >= 0:
                placed.append((x, y, keepout))
                break
        else:
            return placed, kind
    return placed, ""


def draw_layout(task: Task, rng: np.random.Generator) -> Layout:
    """Draw a start layout.

    Raises:
        LayoutError: no valid layout was found; the message names the object that did not fit.
    """
    if isinstance(task.objective, RunObjective):
        return _empty_layout()
    draw = _Uniform(rng)
    for _ in range(TRIES_PER_LAYOUT):
        places, missing = _place_all(task, draw)
        if not missing:
            break
    else:
        raise LayoutError(
            f"Task '{task.name}': no room for a {missing} in {TRIES_PER_LAYOUT} layouts."
            " Ask for fewer objects, smaller keep-outs or larger extents."
        )
    by_kind: dict[str, list[tuple[float, float]]] = {}
    for (kind, _, _), (x, y, _) in zip(placements(task), places, strict=True):
        by_kind.setdefault(kind, []).append((x, y))
    heading, box_turn = (2 * math.pi * rng.random(2)).tolist()
    box = by_kind.get("box", [(0.0, 0.0)])[0]
    layout = Layout(
        robot=np.array([*by_kind["robot"][0], heading]),
        hazards=_points(by_kind, "hazard"),
        buttons=_points(by_kind, "button"),
        pillars=_points(by_kind, "pillar"),
        box=np.array([*box, box_turn if "box" in by_kind else 0.0]),
        goal=np.zeros(2),
        goal_button=np.array(0),
    )
    goal, button = draw_goal(task, rng, layout)
    return layout._replace(goal=goal, goal_button=np.array(button))


def _points(by_kind: dict[str, list[tuple[float, float]]], kind: str) -> np.ndarray:
    return np.array(by_kind.get(kind, []), dtype=float).reshape(-1, 2)


def _empty_layout() -> Layout:
    none = np.zeros((0, 2))
    return Layout(np.zeros(3), none, none, none, np.zeros(3), np.zeros(2), np.array(0))


def draw_goal(task: Task, rng: np.random.Generator, now: Layout) -> tuple[np.ndarray, int]:
    """Draw the next goal, given where everything is now.

    Returns:
        The goal's x, y, and for a Button task the index of the goal button, else 0. When the
        moving objects leave no valid place at all, the place with the most room is taken, so an
        episode goes on.
    """
    objective = task.objective
    if isinstance(objective, ButtonObjective):
        button = int(rng.integers(objective.count))
        return now.buttons[button].copy(), button
    if not isinstance(objective, GoalObjective | PushObjective):
        return np.zeros(2), 0
    placed = [(*now.robot[:2].tolist(), task.start.keepout)]
    placed += [(x, y, task.hazards.keepout) for x, y in now.hazards.tolist()]
    placed += [(x, y, task.pillars.keepout) for x, y in now.pillars.tolist()]
    if isinstance(objective, PushObjective):
        placed.append((*now.box[:2].tolist(), objective.box_keepout))
    draw = _Uniform(rng)
    best, best_gap = (0.0, 0.0), -math.inf
    for _ in range(TRIES_PER_GOAL):
        x, y = draw.inside(task.extents, objective.keepout)
        gap = _clearance(x, y, objective.keepout, placed)
        if gap > best_gap:
            best, best_gap = (x, y), gap
        if gap >= 0:
            break
    return np.array(best), 0


def stack_layouts(layouts: list[Layout]) -> Layout:
    """Join the layouts of several robots into one batch."""
    return Layout(*(np.stack(field) for field in zip(*layouts, strict=True)))
