"""What every drawing shares: palette, overlays, and a smooth canvas in world coordinates.

Everything is drawn at twice the asked size and reduced at the end, which smooths all edges for
less than a millisecond. Text is written after that, because fonts smooth themselves. The bottom
strip of a picture belongs to text, so that a caption never hides the world.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from hipshield.errors import HipshieldError
from hipshield.worlds.task import Box2D

Font = ImageFont.ImageFont | ImageFont.FreeTypeFont
Colour = tuple[int, int, int] | tuple[int, int, int, int]  # red, green, blue[, opacity]; 0 to 255

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
ORANGE, SKY, GREEN, YELLOW = (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66)
BLUE, VERMILLION, PURPLE = (0, 114, 178), (213, 94, 0), (204, 121, 167)
INK, GREY, PALE = (38, 44, 52), (120, 126, 134), (222, 224, 226)
PAPER, FLOOR = (240, 241, 242), (253, 253, 252)
WHITE = (255, 255, 255)

SMOOTH = 2  # pictures are drawn this many times larger
SMALLEST = 64  # pixels; below it a picture shows nothing


@dataclass(frozen=True, eq=False)
class Path:
    """A line through points in the world: a trail, or a plan that a shield considers.

    Attributes:
        points: metres, shape (n, 2): x and y; for the half-cheetah x and height.
        colour: with or without opacity.
        width: pixels of the finished picture.
    """

    points: np.ndarray
    colour: Colour = (*BLUE, 150)
    width: float = 2.0


@dataclass(frozen=True, eq=False)
class Ring:
    """A circle in the world, for instance the room that a prediction may err by.

    Attributes:
        centre: metres, shape (2,), as in `Path`.
        radius: metres.
        colour: of the line; its inside is tinted with it.
    """

    centre: np.ndarray
    radius: float
    colour: Colour = PURPLE


@dataclass(frozen=True)
class Status:
    """A badge in the picture's upper left corner, for instance a shield's verdict."""

    text: str
    colour: Colour = GREEN


Overlay = Path | Ring | Status


@dataclass(frozen=True)
class Strip:
    """The line of text below a picture; `alert` writes its right part in the warning colour."""

    left: str = ""
    right: str = ""
    alert: bool = False


@dataclass(frozen=True)
class _Label:
    at: tuple[float, float]
    text: str
    colour: Colour
    anchor: str


def checked_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return (width, height) in pixels as whole numbers, or say what is wrong with them."""
    good = len(size) == 2 and all(int(v) == v and v >= SMALLEST for v in size)
    if not good:
        raise HipshieldError(
            f"A picture's size is (width, height), both at least {SMALLEST} pixels; got {size!r}."
        )
    return int(size[0]), int(size[1])


def strip_height(size: tuple[int, int]) -> int:
    """Return the height of the text strip below a picture, pixels."""
    return max(20, round(0.05 * size[1]))


@lru_cache(maxsize=16)
def font(pixels: int) -> Font:
    """Return Pillow's own font, so that a picture looks the same on every machine."""
    return ImageFont.load_default(pixels)


def text_pixels(size: tuple[int, int]) -> int:
    """Return the height of the letters on a picture, pixels."""
    return max(12, round(0.6 * strip_height(size)))


class Canvas:
    """A picture whose upper part shows a rectangle of the world, x to the right and y up.

    Args:
        size: (width, height) of the finished picture, pixels.
        box: what has to be visible, metres; what fits around it is visible too.
        image: a picture to go on with, `SMOOTH` times larger than `size`; None: a blank one.

    Attributes:
        scale: pixels of the finished picture per metre.
        shown: the rectangle of the world that is visible, metres.
    """

    def __init__(self, size: tuple[int, int], box: Box2D, image: Image.Image | None = None) -> None:
        self.size = self.width, self.height = size
        self.floor = self.height - strip_height(size)  # the lowest row that shows the world
        x0, y0, x1, y1 = box
        self.scale = min(self.width / (x1 - x0), self.floor / (y1 - y0))
        self.middle = np.array([(x0 + x1) / 2, (y0 + y1) / 2])
        reach = np.array([self.width, self.floor]) / (2 * self.scale)
        self.shown: Box2D = (*(self.middle - reach).tolist(), *(self.middle + reach).tolist())
        full = (self.width * SMOOTH, self.height * SMOOTH)
        self.image = Image.new("RGB", full, PAPER) if image is None else image
        self._solid, self._glaze = ImageDraw.Draw(self.image), ImageDraw.Draw(self.image, "RGBA")
        self._labels: list[_Label] = []

    def pixels(self, points: np.ndarray) -> np.ndarray:
        """Return where points of the world are on the finished picture, shape (..., 2)."""
        offset = (np.asarray(points, float)[..., :2] - self.middle) * self.scale
        return offset * (1, -1) + (self.width / 2, self.floor / 2)

    def _pen(self, *colours: Colour | None) -> ImageDraw.ImageDraw:
        """Return the quick pen for opaque colours, else the one that mixes with what is there."""
        opaque = all(c is None or len(c) == 3 or c[3] == 255 for c in colours)
        return self._solid if opaque else self._glaze

    def disc(
        self,
        centre: np.ndarray,
        radius: float,
        fill: Colour | None = None,
        line: Colour | None = None,
        width: float = 1.5,
    ) -> None:
        """Draw a disc: place and radius in metres, line width in pixels."""
        x, y = (self.pixels(centre) * SMOOTH).tolist()
        r = radius * self.scale * SMOOTH
        box, broad = (x - r, y - r, x + r, y + r), max(1, round(width * SMOOTH))
        self._pen(fill, line).ellipse(box, fill, line, broad)

    def polygon(
        self,
        points: np.ndarray,
        fill: Colour | None = None,
        line: Colour | None = None,
        width: float = 1.5,
    ) -> None:
        """Draw a polygon through points in metres, shape (n, 2); line width in pixels."""
        corners = (self.pixels(points) * SMOOTH).ravel().tolist()
        if fill is not None:
            self._pen(fill).polygon(corners, fill)
        if line is not None:
            around = [*corners, *corners[:4]]  # past the start, so that its corner is joined too
            broad = max(1, round(width * SMOOTH))
            self._pen(line).line(around, line, broad, joint="curve")

    def line(self, points: np.ndarray, colour: Colour, width: float = 1.5) -> None:
        """Draw a line through points in metres, shape (n, 2); its width in pixels."""
        at = _thinned(self.pixels(points) * SMOOTH)
        broad = max(1, round(width * SMOOTH))
        if len(at) < 2 or len(colour) == 3 or colour[3] == 255:
            self._pen().line(at.ravel().tolist(), colour[:3], broad)
            return
        # Opaque on a mask of its own: where a translucent line bends or crosses itself it would
        # otherwise be painted twice.
        x0, y0 = np.maximum(np.floor(at.min(0)).astype(int) - broad, 0).tolist()
        x1, y1 = (np.ceil(at.max(0)).astype(int) + broad).tolist()
        x1, y1 = min(x1, self.image.width), min(y1, self.image.height)
        if x1 > x0 and y1 > y0:
            mask = Image.new("L", (x1 - x0, y1 - y0))
            ImageDraw.Draw(mask).line((at - (x0, y0)).ravel().tolist(), colour[3], broad)
            self.image.paste(colour[:3], (x0, y0), mask)

    def label(
        self,
        pixel: np.ndarray | tuple[float, float],
        text: str,
        colour: Colour = GREY,
        anchor: str = "mm",
    ) -> None:
        """Write text at a pixel of the finished picture (anchors are Pillow's)."""
        self._labels.append(_Label((float(pixel[0]), float(pixel[1])), text, colour, anchor))

    def overlay(self, overlays: tuple[Overlay, ...]) -> None:
        """Draw the paths and rings among the overlays."""
        for item in overlays:
            if isinstance(item, Ring):
                self.disc(item.centre, item.radius, (*item.colour[:3], 36), item.colour, 2)
            elif isinstance(item, Path):
                self.line(item.points, item.colour, item.width)

    def finish(self, strip: Strip, overlays: tuple[Overlay, ...] = ()) -> np.ndarray:
        """Return the finished picture with its text, uint8, shape (height, width, 3)."""
        image = self.image.reduce(SMOOTH)
        pen, letters = ImageDraw.Draw(image), font(text_pixels(self.size))
        for label in self._labels:
            pen.text(label.at, label.text, label.colour, letters, label.anchor)
        stamp(image, overlays)
        write_strip(image, strip)
        return np.array(image)


def _thinned(pixels: np.ndarray) -> np.ndarray:
    """Drop points that lie within 3 pixels along the line: it gets quicker, and smoother."""
    pixels = pixels[np.isfinite(pixels).all(-1)]
    if len(pixels) < 3:
        return pixels
    along = np.cumsum(np.hypot(*np.diff(pixels, axis=0).T)) // (3 * SMOOTH)
    keep = np.concatenate([[0], 1 + np.flatnonzero(np.diff(along, prepend=0) > 0)])
    if len(keep) == 1:
        keep = np.array([0, len(pixels) - 1])
    keep[-1] = len(pixels) - 1  # the end itself, instead of a stub of a piece with a wrong angle
    return pixels[keep]


def stamp(image: Image.Image, overlays: tuple[Overlay, ...]) -> None:
    """Put the badges among the overlays onto a finished picture, one below the other."""
    letters = text_pixels(image.size)
    top = gap = round(0.6 * letters)
    for item in overlays:
        if isinstance(item, Status):
            badge = _badge(item.text, item.colour[:3], letters)
            image.paste(badge, (gap, top), badge)
            top += badge.height + gap // 2


@lru_cache(maxsize=64)
def _badge(text: str, colour: Colour, letters: int) -> Image.Image:
    """Return a pill with text, with a transparent outside."""
    width = round(font(letters).getlength(text) + 1.6 * letters)
    height = round(1.8 * letters)
    pill = Image.new("L", (width * SMOOTH, height * SMOOTH))
    box = (0, 0, pill.width - 1, pill.height - 1)
    ImageDraw.Draw(pill).rounded_rectangle(box, pill.height // 2, 255)
    badge = Image.new("RGB", (width, height), colour)
    badge.putalpha(pill.reduce(SMOOTH))
    bright = np.dot(colour, (0.299, 0.587, 0.114)) > 150
    ink = INK if bright else WHITE
    ImageDraw.Draw(badge).text((width / 2, height / 2), text, ink, font(letters), "mm")
    return badge


def write_strip(image: Image.Image, strip: Strip) -> None:
    """Write the text line onto the strip below a finished picture."""
    width, height = image.size
    top, letters = height - strip_height(image.size), font(text_pixels(image.size))
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, top, width, height), WHITE)
    pen.line((0, top, width, top), PALE)
    gap, line = round(0.5 * (height - top)), (top + height) / 2 + 0.5
    room = width - 3 * gap - letters.getlength(strip.right)
    pen.text((gap, line), _shortened(strip.left, letters, room), INK, letters, "lm")
    colour = VERMILLION if strip.alert else INK
    pen.text((width - gap, line), strip.right, colour, letters, "rm")


def _shortened(text: str, letters: Font, room: float) -> str:
    """Return as much of a text as fits into the room, pixels."""
    text = " ".join(text.split())
    if letters.getlength(text) <= room:
        return text
    while text and letters.getlength(text + "...") > room:
        text = text[:-1]
    return text + "..." if text else ""
