"""The half-cheetah from the side, and its velocity over time."""

import math

import mujoco
import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw

from hipshield.worlds.seeing.canvas import (
    BLUE,
    FLOOR,
    GREY,
    INK,
    PALE,
    SKY,
    SMOOTH,
    VERMILLION,
    WHITE,
    Canvas,
    Overlay,
    Strip,
    font,
    text_pixels,
)
from hipshield.worlds.world import World

HALF_WIDTH = 1.4  # metres to either side of the camera
BELOW, ABOVE = 0.75, 1.9  # metres below and above the ground that have to be visible
_EARTH = (226, 222, 214)
_NEAR, _FAR, _BODY = BLUE, SKY, (0, 84, 138)  # hind legs, fore legs, torso and head


def draw_side(
    world: World,
    limit: float,
    robot: int,
    size: tuple[int, int],
    overlays: tuple[Overlay, ...],
    strip: Strip,
) -> np.ndarray:
    """Draw a half-cheetah from the side, uint8, shape (height, width, 3).

    The camera follows x, and also the height when the robot leaps out of the picture. `limit`
    is the highest velocity that costs nothing, metres per second.
    """
    view, qpos = world.view(), world.physics.state["qpos"][robot]
    x, lift = float(qpos[0]), max(0.0, float(qpos[1]) + 0.7 - ABOVE + 0.6)
    canvas = Canvas(size, (x - HALF_WIDTH, lift - BELOW, x + HALF_WIDTH, lift + ABOVE))
    _draw_ground(canvas)
    _draw_body(canvas, world, robot, strip.alert)
    canvas.overlay(overlays)
    picture = Image.fromarray(canvas.finish(strip, overlays))
    draw_gauge(picture, float(view.velocity[robot]), limit)
    return np.array(picture)


def _draw_ground(canvas: Canvas) -> None:
    """Sky, earth, and a mark for every half metre that scrolls by."""
    x0, y0, x1, y1 = canvas.shown
    canvas.polygon(np.array([(x0, 0), (x1, 0), (x1, y1), (x0, y1)]), FLOOR)
    canvas.polygon(np.array([(x0, y0), (x1, y0), (x1, 0), (x0, 0)]), _EARTH)
    bottom = canvas.pixels(np.zeros(2))[1]
    for half in range(math.ceil(2 * x0), math.floor(2 * x1) + 1):
        whole = half % 2 == 0
        if whole:
            canvas.line(np.array([(half / 2, 0), (half / 2, y1)]), PALE, 0.75)
            x = canvas.pixels(np.array([half / 2, 0]))[0]
            canvas.label((x, bottom + 12 + canvas.height / 60), f"{half // 2} m")
        depth = (9 if whole else 5) / canvas.scale
        canvas.line(np.array([(half / 2, 0), (half / 2, -depth)]), GREY, 1.5)
    canvas.line(np.array([(x0, 0), (x1, 0)]), INK, 2)


def _draw_body(canvas: Canvas, world: World, robot: int, alert: bool) -> None:
    """Every capsule where the robot's own model has it, so that its lengths show."""
    model = world.physics.models([robot])[0]
    data = mujoco.MjData(model)
    data.qpos[:] = world.physics.state["qpos"][robot]
    mujoco.mj_kinematics(model, data)
    names = ("ffoot", "fshin", "fthigh", "torso", "head", "bfoot", "bshin", "bthigh")
    ids = [model.geom(n).id for n in names]
    axes = data.geom_xmat[ids].reshape(-1, 3, 3)[:, :, 2] * model.geom_size[ids, 1:2]
    ends = np.stack([data.geom_xpos[ids] - axes, data.geom_xpos[ids] + axes], 1)[..., [0, 2]]
    radii = model.geom_size[ids, 0]
    colours = [_FAR if n[0] == "f" else _BODY if n in ("torso", "head") else _NEAR for n in names]
    line, extra = (VERMILLION, 4.5) if alert else (INK, 1.75)
    for pair, radius in zip(ends, radii, strict=True):
        _capsule(canvas, pair, radius + extra / canvas.scale, line)
    for pair, radius, colour in zip(ends, radii, colours, strict=True):
        _capsule(canvas, pair, radius, colour)
    for joint in data.xanchor[3:, [0, 2]]:  # the hinges; the root's three joints are no hinges
        canvas.disc(joint, 0.4 * radii[0], WHITE)
    eye = ends[names.index("head"), 1]
    canvas.disc(eye, 0.55 * radii[0], WHITE)
    canvas.disc(eye, 0.28 * radii[0], INK)


def _capsule(canvas: Canvas, ends: np.ndarray, radius: float, colour: tuple[int, int, int]) -> None:
    canvas.line(ends, colour, 2 * radius * canvas.scale)
    for end in ends:
        canvas.disc(end, radius, colour)


def draw_gauge(image: Image.Image, velocity: float, limit: float) -> None:
    """Draw the velocity as a bar, up to twice the limit, near a finished picture's top."""
    width, height = image.size
    letters = text_pixels(image.size)
    x0, x1 = round(0.42 * width), round(0.95 * width)
    y0 = round(0.035 * height)
    y1 = y0 + max(6, round(0.022 * height))
    middle = (x0 + x1) / 2
    full = min(max(velocity / (2 * limit), 0.0), 1.0)
    end = x0 + full * (x1 - x0)
    tile = Image.new("RGB", ((x1 - x0 + 1) * SMOOTH, (y1 - y0) * SMOOTH), PALE)
    pen = ImageDraw.Draw(tile)
    if velocity > 0:
        pen.rectangle((0, 0, (min(end, middle) - x0) * SMOOTH, tile.height), BLUE)
    if velocity >= limit:
        pen.rectangle(((middle - x0) * SMOOTH, 0, (end - x0) * SMOOTH, tile.height), VERMILLION)
    mask = Image.new("L", tile.size)
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, tile.width - 1, tile.height - 1),
                                           tile.height // 2, 255)  # fmt: skip
    image.paste(tile.reduce(SMOOTH), (x0, y0), mask.reduce(SMOOTH))
    pen = ImageDraw.Draw(image)
    pen.line((middle, y0 - 3, middle, y1 + 3), INK, 2)
    colour = VERMILLION if velocity >= limit else INK
    below = y1 + 5 + letters / 2
    pen.text((x0, below), f"{velocity:.2f} m/s", colour, font(letters), "lm")
    pen.text((middle, below), f"limit {limit:g}", GREY, font(letters), "mm")


def draw_chart(
    velocities: np.ndarray,
    costs: np.ndarray,
    limit: float,
    seconds_per_step: float,
    size: tuple[int, int],
) -> np.ndarray:
    """Draw forward velocity against time, with the limit and the steps that cost something.

    Args:
        velocities: metres per second, shape (n,).
        costs: shape (n,).
        limit: metres per second.
        seconds_per_step: simulated time between two velocities.
        size: (width, height), pixels.
    """
    chart = _Chart(len(velocities) * seconds_per_step, velocities, limit, size)
    chart.draw_axes()
    times = np.arange(1, len(velocities) + 1) * seconds_per_step
    points = chart.place(times, velocities)
    chart.canvas.line(points, BLUE, 2)
    for point in points[costs > 0]:
        chart.canvas.disc(point, 2.2 / chart.canvas.scale, VERMILLION)
    steps = f"{len(velocities)} steps, {int((costs > 0).sum())} above the limit"
    return chart.canvas.finish(Strip("forward velocity (m/s) over time (s)", steps))


class _Chart:
    """Axes on a canvas whose metres are pixels: the two axes have different units."""

    def __init__(
        self, seconds: float, values: np.ndarray, limit: float, size: tuple[int, int]
    ) -> None:
        self.canvas = Canvas(size, (0.0, 0.0, float(size[0]), float(size[1])))
        x0, y0, x1, y1 = self.canvas.shown
        self.left, self.right = x0 + 0.08 * (x1 - x0), x1 - 0.04 * (x1 - x0)
        self.bottom, self.top = y0 + 0.07 * (y1 - y0), y1 - 0.05 * (y1 - y0)
        self.seconds, self.limit = max(seconds, 1e-9), limit
        values = values[np.isfinite(values)]
        self.low = min(0.0, float(values.min(initial=0.0)) * 1.08)
        self.high = max(1.25 * limit, float(values.max(initial=0.0)) * 1.08)

    def place(self, times: ArrayLike, values: ArrayLike) -> np.ndarray:
        """Return where points of the chart are on the canvas, shape (n, 2)."""
        across = np.asarray(times) / self.seconds
        up = (np.asarray(values) - self.low) / (self.high - self.low)
        x = self.left + across * (self.right - self.left)
        return np.stack([x, self.bottom + up * (self.top - self.bottom)], -1)

    def draw_axes(self) -> None:
        """Draw the plot's area, its unsafe part, and lines at round numbers."""
        zero, end = 0.0, self.seconds
        corners = self.place([zero, end, end, zero], [self.low, self.low, self.high, self.high])
        self.canvas.polygon(corners, FLOOR)
        for value in _round_numbers(self.low, self.high, 6):
            self._grid(self.place([zero, end], [value, value]), f"{value:g}", (-8, 0), "rm")
        for time in _round_numbers(zero, end, 8):
            self._grid(self.place([time, time], [self.low, self.high]), f"{time:g}", (0, 8), "mt")
        unsafe = self.place([zero, end, end, zero], [self.limit] * 2 + [self.high] * 2)
        self.canvas.polygon(unsafe, (*VERMILLION, 36))
        limit = self.place([zero, end], [self.limit, self.limit])
        self.canvas.line(limit, VERMILLION, 2)
        at = self.canvas.pixels(limit[1]) - (6, 6)
        self.canvas.label(at, f"limit {self.limit:g} m/s", VERMILLION, "rb")

    def _grid(self, ends: np.ndarray, text: str, shift: tuple[float, float], anchor: str) -> None:
        self.canvas.line(ends, PALE, 1)
        self.canvas.label(self.canvas.pixels(ends[0]) + shift, text, GREY, anchor)


def _round_numbers(low: float, high: float, about: int) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten between two numbers."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    count = math.ceil(low / step - 1e-9)
    numbers = []
    while count * step <= high * (1 + 1e-9):
        numbers.append(round(count * step, 9))
        count += 1
    return numbers
