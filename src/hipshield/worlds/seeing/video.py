"""Writing films and pictures: whole files or none.

Everything is written next to its destination under another name, and moved there at the end, so
an error or a crash never leaves half a film behind.
"""

import math
import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import IO, cast

import imageio_ffmpeg
import numpy as np
from PIL import Image

from hipshield.errors import HipshieldError

FILMS = (".mp4", ".gif")


def write_video(path: str | os.PathLike[str], frames: Iterable[np.ndarray], fps: float) -> None:
    """Write frames as a film; they are taken one at a time and not kept.

    Args:
        path: ends in .mp4 (H.264 that plays everywhere) or .gif (which Pillow holds in memory
            with a byte per pixel: for short films). Missing directories are made.
        frames: uint8 arrays of one shape (height, width, 3). An mp4's odd width or height is
            made even by repeating the last column or row.
        fps: frames per second.

    Raises:
        HipshieldError: the suffix, the rate or a frame is not possible, there is no frame, or
            the file cannot be written.
    """
    path = check_video_path(path)
    if not (math.isfinite(fps) and fps > 0):
        raise HipshieldError(f"A film's frames per second must be positive, got {fps!r}.")
    checked = _checked_frames(frames)
    first = next(checked, None)
    if first is None:
        raise HipshieldError(f"There are no frames to write to '{path}'.")
    with _whole_file(path) as part:
        write = _write_gif if path.suffix.lower() == ".gif" else _write_mp4
        write(part, first, checked, fps)


def check_video_path(path: str | os.PathLike[str]) -> Path:
    """Return a film's path if its suffix is possible: worth asking before a long simulation.

    Raises:
        HipshieldError: it is not; the message says which are.
    """
    return _checked_path(path, FILMS, "film")


def write_picture(path: str | os.PathLike[str], array: np.ndarray) -> None:
    """Write one picture as PNG.

    Args:
        path: ends in .png. Missing directories are made.
        array: uint8, shape (height, width, 3).
    """
    path = _checked_path(path, (".png",), "picture")
    picture = Image.fromarray(_checked_frame(array, None))
    with _whole_file(path) as part, _explained(path):
        picture.save(part)


def _checked_path(path: str | os.PathLike[str], suffixes: tuple[str, ...], what: str) -> Path:
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise HipshieldError(
            f"Cannot write a {what} to '{path}': its name must end in {' or '.join(suffixes)}."
        )
    return path


def _checked_frames(frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    shape = None
    for frame in frames:
        frame = _checked_frame(frame, shape)
        shape = frame.shape
        yield frame


def _checked_frame(frame: np.ndarray, shape: tuple[int, ...] | None) -> np.ndarray:
    """Return a frame with its bytes in order, or say what is wrong with it."""
    frame = np.asarray(frame)
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or not frame.size:
        raise HipshieldError(
            "A frame must be of type uint8 and shape (height, width, 3),"
            f" got {frame.dtype} and {frame.shape}."
        )
    if shape is not None and frame.shape != shape:
        raise HipshieldError(f"Frames must have one shape: {shape} is followed by {frame.shape}.")
    return np.ascontiguousarray(frame)


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """Give a sibling's name to write to; move it to `path` at the end, or remove it on errors."""
    part = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    try:
        yield part
        with _explained(path):
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what goes wrong while writing to a path into one line."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0]
        raise HipshieldError(f"Cannot write '{path}': {reason}.") from error


def _write_mp4(path: Path, first: np.ndarray, rest: Iterator[np.ndarray], fps: float) -> None:
    """Feed frames to ffmpeg, one at a time.

    The process is started here and not by `imageio_ffmpeg.write_frames`, which forks in a way
    that JAX warns about, because its threads do not survive it, and which does not look at how
    ffmpeg ended.
    """
    first = _even(first)
    with tempfile.TemporaryFile() as complaints:
        with _explained(path):
            process = subprocess.Popen(
                _command(path, first.shape[1], first.shape[0], fps),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                start_new_session=True,  # Ctrl-C is for us; ffmpeg is ended below
            )
        stream = cast(IO[bytes], process.stdin)
        try:
            _feed(stream, first, rest)
        except BaseException:
            process.kill()
            raise
        finally:
            with suppress(OSError):  # what could not be written any more
                stream.close()
            process.wait()  # until the file is complete
        complaints.seek(0)
        words = complaints.read().decode(errors="replace").strip().splitlines()
    if process.returncode or not path.stat().st_size:
        raise HipshieldError(f"Cannot write a film: ffmpeg: {words[-1] if words else 'failed'}.")


def _feed(stream: IO[bytes], first: np.ndarray, rest: Iterator[np.ndarray]) -> None:
    """Send frames until there are no more, or ffmpeg takes no more."""
    for frame in chain([first], rest):
        try:
            stream.write(_even(frame).data)
        except OSError:  # ffmpeg has ended; its own words say why
            return


def _command(path: Path, width: int, height: int, fps: float) -> list[str]:
    """Return ffmpeg's command line."""
    rate = str(Fraction(float(fps)).limit_denominator(100_000))
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", rate, "-i", "-"]
    # yuv420p is what every player and browser shows; the index comes first, so that a browser
    # can start before it has all.
    coded = ["-c:v", "libx264", "-crf", "18", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    exe = imageio_ffmpeg.get_ffmpeg_exe()
    return [exe, "-y", "-v", "error", *raw, "-an", *coded, os.path.abspath(path)]


def _even(frame: np.ndarray) -> np.ndarray:
    """Repeat the last row or column of a frame of odd height or width."""
    height, width = frame.shape[:2]
    if height % 2 == 0 and width % 2 == 0:
        return frame
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def _write_gif(path: Path, first: np.ndarray, rest: Iterator[np.ndarray], fps: float) -> None:
    hundredths = max(2, round(100 / fps))  # GIF's unit; players slow down what is faster
    _paletted(first).save(
        path,
        save_all=True,
        append_images=(_paletted(frame) for frame in rest),
        duration=10 * hundredths,
        loop=0,
    )


def _paletted(frame: np.ndarray) -> Image.Image:
    """Return a frame in the 256 colours that fit it best."""
    return Image.fromarray(frame).quantize(256, dither=Image.Dither.NONE)
