"""Films and pictures are written whole or not at all."""

import weakref

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from hipshield.errors import HipshieldError
from hipshield.worlds.seeing.video import check_video_path, write_picture, write_video


def frames(count, width=64, height=48):
    """Frames that get brighter: each is another one."""
    for i in range(count):
        yield np.full((height, width, 3), 10 + i * (200 // count), np.uint8)


@pytest.fixture(autouse=True)
def _reading_without_fork(monkeypatch):
    """imageio_ffmpeg forks to read, which JAX warns about; this lets it spawn."""
    monkeypatch.setenv("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")


# imageio_ffmpeg leaves its pipes open when it has read a whole film.
reads_a_film = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


def read(path):
    reader = imageio_ffmpeg.read_frames(str(path))
    about = next(reader)
    width, height = about["size"]
    return about, [np.frombuffer(f, np.uint8).reshape(height, width, 3) for f in reader]


@reads_a_film
def test_a_film_has_its_frames_its_size_and_its_rate(tmp_path):
    write_video(tmp_path / "new" / "run.mp4", frames(12), fps=24)
    about, seen = read(tmp_path / "new" / "run.mp4")
    assert len(seen) == 12
    assert about["size"] == (64, 48)
    assert about["fps"] == 24
    assert about["codec"] == "h264"
    assert about["pix_fmt"].startswith("yuv420p")
    for mine, theirs in zip(frames(12), seen, strict=True):
        assert np.abs(mine.astype(int) - theirs).max() < 12
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["run.mp4"]


@reads_a_film
def test_an_odd_size_is_made_even_by_repeating_the_edge(tmp_path):
    write_video(tmp_path / "run.mp4", frames(3, 63, 47), fps=10)
    about, seen = read(tmp_path / "run.mp4")
    assert about["size"] == (64, 48)
    assert np.abs(seen[0][-1, -1].astype(int) - seen[0][0, 0]).max() < 12


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_an_error_while_making_frames_leaves_nothing_and_keeps_the_old_film(tmp_path, suffix):
    def failing():
        yield from frames(3)
        raise ZeroDivisionError("in the caller's own code")

    path = tmp_path / f"run{suffix}"
    for old in (None, b"the old film"):
        if old is not None:
            path.write_bytes(old)
        with pytest.raises(ZeroDivisionError):
            write_video(path, failing(), fps=10)
        left = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
        assert left == ({} if old is None else {path.name: old})


def test_an_mp4s_frames_are_not_kept(tmp_path):
    made, most = [], 0

    def watched():
        nonlocal most
        for frame in frames(20):
            made.append(weakref.ref(frame))
            yield frame
            most = max(most, sum(r() is not None for r in made))

    write_video(tmp_path / "run.mp4", watched(), fps=10)
    assert 0 < most <= 4


def test_a_gif_plays_all_frames_for_ever(tmp_path):
    write_video(tmp_path / "run.GIF", frames(5, 33, 21), fps=20)
    with Image.open(tmp_path / "run.GIF") as film:
        assert (film.n_frames, film.size) == (5, (33, 21))
        assert film.info["duration"] == 50
        assert film.info["loop"] == 0
        film.seek(4)
        assert abs(film.convert("RGB").getpixel((3, 3))[0] - 170) < 6


@pytest.mark.parametrize("name", ["run.avi", "run", "run.mp4.txt"])
def test_other_suffixes_are_refused_before_any_frame_is_made(tmp_path, name):
    def never():
        raise AssertionError("a frame was asked for")
        yield

    with pytest.raises(HipshieldError, match=r"\.mp4 or \.gif"):
        write_video(tmp_path / name, never(), fps=10)
    with pytest.raises(HipshieldError, match="must end in"):
        check_video_path(name)
    assert not list(tmp_path.iterdir())


def test_wrong_frames_and_rates_are_refused(tmp_path):
    path, good = tmp_path / "run.mp4", np.zeros((16, 16, 3), np.uint8)
    for wrong, words in (
        ([], "no frames"),
        ([good.astype(float)], "uint8"),
        ([good[..., 0]], r"\(16, 16\)"),
        ([good, good[:8]], "one shape"),
    ):
        with pytest.raises(HipshieldError, match=words):
            write_video(path, iter(wrong), fps=10)
    for fps in (0, -1, float("nan")):
        with pytest.raises(HipshieldError, match="per second"):
            write_video(path, [good], fps=fps)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for write in (
        lambda p: write_video(p / "run.mp4", frames(2), fps=10),
        lambda p: write_picture(p / "now.png", next(frames(1))),
    ):
        with pytest.raises(HipshieldError, match="file"):
            write(tmp_path / "file")


SPOILS = "cat > /dev/null; for last; do :; done; echo half > $last; echo disk full >&2; exit 1"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (SPOILS, "disk full"),
        ("echo no encoder >&2; exit 3", "no encoder"),
        ("cat > /dev/null", "failed"),
    ],
)
def test_what_ffmpeg_complains_about_is_passed_on(tmp_path, monkeypatch, program, words):
    fake = tmp_path / "ffmpeg"
    fake.write_text(f"#!/bin/sh\n{program}\n")
    fake.chmod(0o700)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(fake))
    (tmp_path / "films").mkdir()
    with pytest.raises(HipshieldError, match=words):
        write_video(tmp_path / "films" / "run.mp4", frames(30, 640, 480), fps=10)
    assert not list((tmp_path / "films").iterdir())


def test_a_missing_ffmpeg_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / "nowhere"))
    with pytest.raises(HipshieldError, match=r"Cannot write .*No such file"):
        write_video(tmp_path / "run.mp4", frames(2), fps=10)
    assert not list(tmp_path.iterdir())


def test_a_picture_comes_back_as_it_was(tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    write_picture(tmp_path / "new" / "now.png", picture)
    with Image.open(tmp_path / "new" / "now.png") as back:
        assert (np.array(back) == picture).all()
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["now.png"]
    with pytest.raises(HipshieldError, match=r"\.png"):
        write_picture(tmp_path / "now.jpg", picture)
