"""Pictures of worlds, drawn by ourselves: no graphics card, no OpenGL, the same everywhere.

    >>> picture = draw(world, overlays=[Path(trail), Status("safe", GREEN)])
    >>> write_picture("now.png", picture)

The robots that drive are seen from above, the half-cheetah from the side. `draw_trajectory`
shows a whole episode in one picture.
"""

from collections.abc import Sequence
from itertools import pairwise

import jax
import numpy as np

from hipshield.errors import HipshieldError
from hipshield.worlds.margins import Scene, margin
from hipshield.worlds.seeing.canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    WHITE,
    YELLOW,
    Canvas,
    Colour,
    Overlay,
    Path,
    Ring,
    Status,
    Strip,
    checked_size,
)
from hipshield.worlds.seeing.plan_view import draw_plan, draw_targets, grown, open_plan, usual_box
from hipshield.worlds.seeing.side_view import draw_chart, draw_side
from hipshield.worlds.sensing import feature_of
from hipshield.worlds.task import RunObjective
from hipshield.worlds.world import World

__all__ = [
    "BLUE", "GREEN", "GREY", "ORANGE", "PURPLE", "SKY", "VERMILLION", "YELLOW",
    "Colour", "Overlay", "Path", "Ring", "Status",
    "draw", "draw_trajectory",
]  # fmt: skip

_EARLY, _LATE = np.array((150, 196, 228)), np.array((10, 44, 96))  # a path's ends
_SHADES = 48


def draw(
    world: World,
    robot: int = 0,
    size: tuple[int, int] = (480, 480),
    overlays: Sequence[Overlay] = (),
    caption: str = "",
) -> np.ndarray:
    """Draw one robot and its world as they are now.

    Args:
        world: has been reset.
        robot: which robot of the batch.
        size: (width, height), pixels.
        overlays: paths and rings in world coordinates, and badges.
        caption: text below the picture, before time and margin.

    Returns:
        uint8, shape (height, width, 3). The robot's outline is in the warning colour while its
        margin is zero or negative.
    """
    size, overlays = checked_size(size), tuple(overlays)
    strip = describe(world, checked_robot(world, robot), caption)
    if isinstance(world.task.objective, RunObjective):
        limit = world.task.objective.velocity_limit
        return draw_side(world, limit, robot, size, overlays, strip)
    return draw_plan(world, robot, size, overlays, strip)


def checked_robot(world: World, robot: int) -> int:
    """Return the index of a robot of a world, or say which there are."""
    if not 0 <= robot < world.robots:
        raise HipshieldError(f"Robots are numbered 0 to {world.robots - 1}, got {robot}.")
    return robot


def describe(world: World, robot: int, caption: str = "") -> Strip:
    """Return the text line of a robot's picture: caption, simulated time and margin."""
    feature = feature_of(world.task, world.view())[robot]
    with jax.enable_x64(True):  # as exact as the cost, whose threshold the colour tells of
        nu = float(margin(feature, Scene(*(part[robot] for part in world.scene()))))
    time = f"t {world.elapsed[robot] * world.seconds_per_step:.1f} s"
    unit = "m/s" if isinstance(world.task.objective, RunObjective) else "m"
    room = f"   margin {nu:+.2f} {unit}" if np.isfinite(nu) else ""
    return Strip(caption, time + room, alert=nu <= 0)


def draw_trajectory(
    world: World,
    positions: np.ndarray,
    costs: np.ndarray,
    robot: int = 0,
    size: tuple[int, int] = (800, 800),
) -> np.ndarray:
    """Draw a whole path over a robot's layout, from light (early) to dark (late).

    Args:
        world: its goal and box are shown where they are now.
        positions: the features e(s) of the steps: places, shape (n, 2) or more columns; for the
            half-cheetah forward velocities, shape (n,) or (n, 1), drawn against time.
        costs: shape (n,); steps with a positive cost are marked.
        robot: whose layout.
        size: (width, height), pixels.

    Returns:
        uint8, shape (height, width, 3).
    """
    size, robot = checked_size(size), checked_robot(world, robot)
    positions, costs = np.asarray(positions, float), np.asarray(costs, float).reshape(-1)
    if not len(costs):
        raise HipshieldError("A trajectory needs at least one step.")
    objective = world.task.objective
    runs = isinstance(objective, RunObjective)
    if runs:
        positions = positions.reshape(len(positions), -1)[:, :1]
    wide_enough = positions.ndim == 2 and positions.shape[1] >= (1 if runs else 2)
    if not wide_enough or len(positions) != len(costs) or not np.isfinite(positions).all():
        raise HipshieldError(
            "A trajectory is finite positions of shape (n, 2) (half-cheetah: velocities, (n, 1))"
            f" and costs of shape (n,); got {positions.shape} and {costs.shape}."
        )
    if isinstance(objective, RunObjective):
        limit = objective.velocity_limit
        return draw_chart(positions[:, 0], costs, limit, world.seconds_per_step, size)
    return _draw_route(world, positions[:, :2], costs, robot, size)


def _draw_route(
    world: World, positions: np.ndarray, costs: np.ndarray, robot: int, size: tuple[int, int]
) -> np.ndarray:
    view = world.view()
    box = grown(usual_box(world.task), positions)
    canvas = open_plan(world.task, view, robot, size, box, keep=False)
    draw_targets(canvas, world, view, robot)
    edges = np.linspace(0, len(positions) - 1, _SHADES + 1).astype(int)
    for i, (start, stop) in enumerate(pairwise(edges)):
        shade = _EARLY + (_LATE - _EARLY) * i / (_SHADES - 1)
        piece = positions[start : stop + 1]  # the last point is the next piece's first
        canvas.overlay((Path(piece, tuple(shade.astype(int).tolist()), 3.0),))
    for place in positions[costs > 0]:
        canvas.disc(place, 3.2 / canvas.scale, VERMILLION)
    _mark(canvas, positions[0], "start", WHITE)
    _mark(canvas, positions[-1], "end", tuple(_LATE.tolist()))
    paid = f"{len(costs)} steps, cost {costs.sum():g}"
    return canvas.finish(Strip(f"{world.task.name}: path from light to dark, cost in orange", paid))


def _mark(canvas: Canvas, place: np.ndarray, name: str, fill: Colour) -> None:
    """Mark one end of a path with a disc and its name."""
    canvas.disc(place, 7 / canvas.scale, fill, INK, 2)
    x, y = canvas.pixels(place)
    canvas.label((x, y - 18), name, INK)
