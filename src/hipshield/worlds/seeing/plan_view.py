"""The Point's and the Car's worlds, seen from above.

What stays in place during an episode is painted once and kept; goals, buttons, the box and the
robot are painted on a copy of it.
"""

import math
from functools import lru_cache

import mujoco
import numpy as np
from PIL import Image

from hipshield.worlds.objectives import View
from hipshield.worlds.objects import BOX
from hipshield.worlds.seeing.canvas import (
    BLUE,
    FLOOR,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    VERMILLION,
    WHITE,
    Canvas,
    Overlay,
    Strip,
)
from hipshield.worlds.task import (
    Box2D,
    ButtonObjective,
    CircleObjective,
    GoalObjective,
    PushObjective,
    Task,
)
from hipshield.worlds.world import World

ROOM = 0.5  # metres around what has to be visible
ZOOM_STEP = 0.5  # metres: the view grows in steps, so that its background can be kept
MOST_ZOOM = 2.0  # the view never gets wider than this many times its usual width

# Shapes in the robots' own frames, metres. The car's front is −y, the point's is +x.
_CAR_HULL = np.array([(-0.1, 0.16), (0.1, 0.16), (0.1, -0.1), (0.05, -0.175), (-0.05, -0.175),
                      (-0.1, -0.1)])  # fmt: skip
_CAR_WHEEL = np.array([(0.1, 0.05), (0.155, 0.05), (0.155, 0.15), (0.1, 0.15)])
_CAR_ARROW = np.array([(0.0, -0.145), (0.065, -0.03), (0.0, -0.055), (-0.065, -0.03)])
_POINT_RADIUS = 0.1
_POINT_NOSE = np.array([(0.0, 0.05), (0.15, 0.05), (0.15, -0.05), (0.0, -0.05)])
_POINT_ARROW = np.array([(0.13, 0.0), (-0.02, 0.055), (0.015, 0.0), (-0.02, -0.055)])
_SQUARE = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])


def usual_box(task: Task) -> Box2D:
    """Return the rectangle of a task that is always visible, metres."""
    if isinstance(task.objective, CircleObjective):
        reach = max(task.objective.radius, task.objective.wall or 0.0)
        boxes = [(-reach, -reach, reach, reach), task.start.extents or task.extents]
    else:
        boxes = [task.extents, task.start.extents or task.extents]
    corners = np.array(boxes)
    low, high = corners[:, :2].min(0) - ROOM, corners[:, 2:].max(0) + ROOM
    return (*low.tolist(), *high.tolist())


def grown(box: Box2D, points: np.ndarray, most: float = math.inf) -> Box2D:
    """Return a box grown on all sides, in steps, until it shows the points.

    Args:
        box: metres.
        points: what should be visible, shape (n, 2).
        most: how many times wider the box may get; points farther away stay outside.
    """
    low, high = np.array(box[:2]), np.array(box[2:])
    points = points[np.isfinite(points).all(1)]
    if not len(points):
        return box
    past = max((low - points.min(0)).max(), (points.max(0) - high).max(), -ROOM)
    more = math.ceil((past + ROOM / 2) / ZOOM_STEP) * ZOOM_STEP
    more = max(0.0, min(more, (most - 1) / 2 * float((high - low).min())))
    return (*(low - more).tolist(), *(high + more).tolist())


def draw_plan(
    world: World, robot: int, size: tuple[int, int], overlays: tuple[Overlay, ...], strip: Strip
) -> np.ndarray:
    """Draw a robot's world from above, uint8, shape (height, width, 3)."""
    view = world.view()
    place = view.position[robot, :2]
    seen = np.stack([place, view.box[robot, :2]]) if _pushes(world.task) else place[None]
    canvas = open_plan(world.task, view, robot, size, grown(usual_box(world.task), seen, MOST_ZOOM))
    draw_targets(canvas, world, view, robot)
    canvas.overlay(overlays)
    draw = {"point": _draw_point, "car": _draw_car}[world.task.robot]
    draw(canvas, place, view.rotation[robot, :2, :2], strip.alert)
    _point_outside(canvas, place)
    return canvas.finish(strip, overlays)


def open_plan(
    task: Task, view: View, robot: int, size: tuple[int, int], box: Box2D, keep: bool = True
) -> Canvas:
    """Return a canvas with everything that never moves; `keep` it for the next picture."""
    fixed = tuple(np.ascontiguousarray(a[robot]).tobytes() for a in (view.hazards, view.pillars))
    paint = _background if keep else _background.__wrapped__
    return Canvas(size, box, paint(task, fixed, size, box).copy())


@lru_cache(maxsize=8)
def _background(
    task: Task, fixed: tuple[bytes, bytes], size: tuple[int, int], box: Box2D
) -> Image.Image:
    """Paint the floor, hazards, pillars, circle and walls, `SMOOTH` times enlarged."""
    canvas = Canvas(size, box)
    _draw_floor(canvas, task)
    if isinstance(task.objective, CircleObjective):
        _draw_circle(canvas, task.objective)
    hazards, pillars = (np.frombuffer(b).reshape(-1, 2) for b in fixed)
    for centre in hazards:
        canvas.disc(centre, task.hazards.radius, (*VERMILLION, 64), (*VERMILLION, 190))
    for centre in pillars:
        canvas.disc(centre, task.pillars.radius, (*GREY, 255), INK)
        canvas.disc(centre, 0.72 * task.pillars.radius, (150, 155, 162))
    return canvas.image


def _draw_floor(canvas: Canvas, task: Task) -> None:
    """A light floor with metre lines, lighter where objects are placed (a circle has none)."""
    x0, y0, x1, y1 = canvas.shown
    around = isinstance(task.objective, CircleObjective)
    a0, b0, a1, b1 = canvas.shown if around else task.extents
    canvas.polygon(np.array([(a0, b0), (a1, b0), (a1, b1), (a0, b1)]), FLOOR)
    for x in range(math.ceil(x0), math.floor(x1) + 1):
        canvas.line(np.array([(x, y0), (x, y1)]), PALE, 0.75)
    for y in range(math.ceil(y0), math.floor(y1) + 1):
        canvas.line(np.array([(x0, y), (x1, y)]), PALE, 0.75)


def _draw_circle(canvas: Canvas, objective: CircleObjective) -> None:
    """The circle with arrows in the rewarded direction; walls with the unsafe side tinted."""
    if objective.wall is not None:
        w, (x0, y0, x1, y1) = objective.wall, canvas.shown
        for a0, b0, a1, b1 in ((x0, y0, x1, -w), (x0, w, x1, y1), (x0, -w, -w, w), (w, -w, x1, w)):
            canvas.polygon(np.array([(a0, b0), (a1, b0), (a1, b1), (a0, b1)]), (*VERMILLION, 42))
        canvas.polygon(w * _SQUARE, None, VERMILLION, 2.5)
    r = objective.radius
    canvas.disc(np.zeros(2), r, None, GREEN, 3)
    canvas.disc(np.zeros(2), 0.03, GREEN)
    for angle in np.arange(4) * math.pi / 2 + math.pi / 4:
        out = np.array([math.cos(angle), math.sin(angle)])
        along = np.array([-out[1], out[0]])
        tip = r * out + 0.09 * along
        canvas.polygon(np.stack([tip, tip - 0.17 * along + 0.08 * out,
                                 tip - 0.17 * along - 0.08 * out]), GREEN)  # fmt: skip


def _pushes(task: Task) -> bool:
    return isinstance(task.objective, PushObjective)


def draw_targets(canvas: Canvas, world: World, view: View, robot: int) -> None:
    """Draw what the task is about: the goal, the buttons, the box."""
    objective = world.task.objective
    if isinstance(objective, GoalObjective | PushObjective):
        canvas.disc(view.goal[robot], objective.radius, (*GREEN, 50), GREEN, 3)
        canvas.disc(view.goal[robot], 0.04, GREEN)
    elif isinstance(objective, ButtonObjective):
        _draw_buttons(canvas, objective, view, robot)
    if isinstance(objective, PushObjective):
        _draw_box(canvas, world, objective, robot)


def _draw_buttons(canvas: Canvas, objective: ButtonObjective, view: View, robot: int) -> None:
    """All buttons; the goal among them has a ring. They fade while the robot cannot see them."""
    strong = 90 if view.timer[robot] > 0 else 255
    goal = int(view.goal_button[robot])
    for i, centre in enumerate(view.buttons[robot]):
        if i == goal:
            canvas.disc(centre, objective.marker_radius, (*GREEN, strong // 5), (*GREEN, strong), 3)
        fill = GREEN if i == goal else PURPLE
        canvas.disc(centre, objective.radius, (*fill, strong), (*INK, strong))


def _draw_box(canvas: Canvas, world: World, objective: PushObjective, robot: int) -> None:
    """The push box and its four corner posts, turned as they are."""
    at = world.physics.model.joint(BOX).qposadr[0]
    pose = world.physics.state["qpos"][robot, at : at + 7]
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, pose[3:])
    turn, half = matrix.reshape(3, 3)[:2, :2], objective.box_half_size
    for corner in _SQUARE * half:
        canvas.polygon(pose[:2] + (corner + _SQUARE * half / 2) @ turn.T, (176, 118, 0), INK, 1.25)
    canvas.polygon(pose[:2] + _SQUARE * half @ turn.T, ORANGE, INK, 1.25)


def _draw_point(canvas: Canvas, place: np.ndarray, turn: np.ndarray, alert: bool) -> None:
    """A disc with a square nose; an outline first, the filling over it."""
    line, width = (VERMILLION, 7) if alert else (INK, 3)
    nose = place + _POINT_NOSE @ turn.T
    canvas.polygon(nose, None, line, width)
    canvas.disc(place, _POINT_RADIUS + width / 2 / canvas.scale, line)
    canvas.polygon(nose, BLUE)
    canvas.disc(place, _POINT_RADIUS, BLUE)
    canvas.polygon(place + _POINT_ARROW @ turn.T, WHITE)


def _draw_car(canvas: Canvas, place: np.ndarray, turn: np.ndarray, alert: bool) -> None:
    """A hull on two wheels, with an arrow to its front."""
    line, width = (VERMILLION, 7) if alert else (INK, 3)
    hull = place + _CAR_HULL @ turn.T
    wheels = [place + (_CAR_WHEEL * (side, 1)) @ turn.T for side in (-1, 1)]
    for part in (*wheels, hull):
        canvas.polygon(part, None, line, width)
    for wheel in wheels:
        canvas.polygon(wheel, INK)
    canvas.polygon(hull, BLUE)
    canvas.polygon(place + _CAR_ARROW @ turn.T, WHITE)


def _point_outside(canvas: Canvas, place: np.ndarray) -> None:
    """Where the robot is beyond the widest view, point to it from the picture's edge."""
    x0, y0, x1, y1 = canvas.shown
    if x0 <= place[0] <= x1 and y0 <= place[1] <= y1:
        return
    far = place - canvas.middle
    direction = far / np.linalg.norm(far)
    reach = np.array([x1 - x0, y1 - y0]) / 2 - 10 / canvas.scale
    tip = canvas.middle + far * np.min(reach / np.maximum(np.abs(far), 1e-9))
    side, unit = np.array([-direction[1], direction[0]]), 14 / canvas.scale
    back = tip - 1.4 * unit * direction
    canvas.polygon(np.stack([tip, back + 0.7 * unit * side, back - 0.7 * unit * side]), BLUE, INK)
    words = canvas.pixels(back - 2.4 * unit * direction)
    canvas.label(words, f"{np.linalg.norm(far):.1f} m", INK)
