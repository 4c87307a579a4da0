"""Rendering works with OpenGL and without, and never makes trouble where there is none."""

import os

import mujoco
import numpy as np
import pytest

from hipshield.errors import HipshieldError
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.seeing import offscreen as rendering_gl
from hipshield.worlds.seeing import renderer as rendering
from hipshield.worlds.seeing.drawing import PURPLE, VERMILLION, Path, Ring, Status, draw
from hipshield.worlds.seeing.offscreen import candidates, working_backend
from hipshield.worlds.seeing.renderer import Renderer
from hipshield.worlds.seeing.scenery import new_visual_model, take_places
from hipshield.worlds.world import World

# MuJoCo's backends set it when they are first used, which other programs would notice.
PLATFORM_AT_IMPORT = os.environ.get("PYOPENGL_PLATFORM")


@pytest.fixture
def needs_gl():
    if working_backend() is None:
        pytest.skip("OpenGL does not work here")


@pytest.fixture(scope="module")
def car():
    return World(find_task("car-goal"), threads=1)


@pytest.fixture(scope="module")
def runner():
    return World(find_task("half-cheetah-velocity"), split="ood", threads=1)


@pytest.fixture
def fresh_probe():
    working_backend.cache_clear()
    yield
    working_backend.cache_clear()


def put(world, x, y):
    world.physics.state["qpos"][0, :2] = x, y
    world.physics.forward(np.arange(1))


# Without OpenGL


def test_auto_falls_back_to_drawings(car, monkeypatch):
    car.reset(seed=0)
    monkeypatch.setattr(rendering, "working_backend", lambda: None)
    overlays = [Path(np.array([[0, 0], [1, 1]])), Status("kept")]
    with Renderer(car, size=(200, 160)) as renderer:
        assert renderer.backend == "drawing"
        frame = renderer.frame(overlays=overlays, caption="hello")
    assert (frame == draw(car, 0, (200, 160), overlays, "hello")).all()


def test_asking_for_opengl_where_there_is_none_says_what_to_install(car, monkeypatch):
    monkeypatch.setattr(rendering, "working_backend", lambda: None)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with pytest.raises(HipshieldError, match=r"(?i)install .*backend='drawing'") as error:
        Renderer(car, "mujoco")
    assert "\n" not in str(error.value)


def test_auto_survives_a_context_that_only_fails_in_this_process(car, monkeypatch):
    car.reset(seed=0)

    def broken(*_):
        raise RuntimeError("no context")

    monkeypatch.setattr(rendering, "working_backend", lambda: "egl")
    monkeypatch.setattr(rendering, "Offscreen", broken)
    assert Renderer(car).backend == "drawing"
    with pytest.raises(HipshieldError, match="OpenGL"):
        Renderer(car, "mujoco")


@pytest.mark.parametrize(
    "driver",
    [
        "import os; os.abort()",
        "import time; time.sleep(60)",
        "print('paints nothing')",
        "import nothing_like_this",
    ],
)
def test_a_driver_that_crashes_hangs_or_fails_is_not_used(
    driver, monkeypatch, fresh_probe, capfd, tmp_path
):
    monkeypatch.setattr(rendering_gl, "_PROBE", driver)
    monkeypatch.setattr(rendering_gl, "PROBE_SECONDS", 1.0)
    monkeypatch.setattr(rendering_gl, "candidates", lambda: ("egl",))
    assert working_backend() is None
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_backends_are_tried_once_per_process(monkeypatch, fresh_probe):
    tried = []
    monkeypatch.setattr(rendering_gl, "candidates", lambda: ("egl", "osmesa", "glfw"))
    monkeypatch.setattr(rendering_gl, "_paints", lambda b: tried.append(b) or b == "osmesa")
    assert [working_backend(), working_backend()] == ["osmesa", "osmesa"]
    assert tried == ["egl", "osmesa"]


def test_what_the_user_asks_for_is_tried_first(monkeypatch):
    monkeypatch.setattr(rendering_gl.platform, "system", lambda: "Linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    expected = {"": ("egl", "osmesa"), "osmesa": ("osmesa", "egl"), "off": (), "Disabled": (),
                "glx": ("glfw", "egl", "osmesa")}  # fmt: skip
    for asked, order in expected.items():
        monkeypatch.setenv("MUJOCO_GL", asked)
        assert candidates() == order
    monkeypatch.delenv("MUJOCO_GL")
    monkeypatch.setenv("DISPLAY", ":0")
    assert candidates() == ("egl", "osmesa", "glfw")


def test_unknown_backends_and_closed_renderers_are_refused(car):
    car.reset(seed=0)
    with pytest.raises(HipshieldError, match="Did you mean 'mujoco'"):
        Renderer(car, "mujco")
    renderer = Renderer(car, "drawing")
    renderer.close()
    renderer.close()
    with pytest.raises(HipshieldError, match="closed"):
        renderer.frame()


def test_the_shown_body_is_the_robots_own(runner):
    """Lengths of segments, and what MuJoCo derives places from, come from the robot's model."""
    runner.reset(seed=2)
    moved, shown = runner.physics.models([0])[0], new_visual_model(runner.task, (64, 64))
    take_places(shown, moved)
    places = []
    for model in (moved, shown):
        data = mujoco.MjData(model)
        data.qpos[:] = runner.physics.state["qpos"][0]
        mujoco.mj_kinematics(model, data)
        places.append((data.geom_xpos.copy(), data.geom_xmat.copy(), model.geom_size[1:].copy()))
    for mine, theirs in zip(*places, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


# With OpenGL


def middle(mask):
    """Mean column and row of a mask, above the text strip."""
    rows, columns = np.nonzero(mask[: round(0.94 * len(mask))])
    assert len(rows), "nothing of this colour"
    return np.array([columns.mean(), rows.mean()])


def like(frame, colour):
    """Where a frame has the hue of a colour, whatever the light."""
    pixels = frame / np.maximum(frame.max(-1, keepdims=True), 1)
    return (np.abs(pixels - np.array(colour) / max(colour)) < 0.2).all(-1) & (frame.max(-1) > 60)


def test_opengl_shows_the_robot_where_it_is(needs_gl, car):
    car.reset(seed=0)
    car.layout.hazards[:] = -1.3
    with Renderer(car, size=(240, 240)) as renderer:
        assert renderer.backend == "mujoco"
        places = []
        for x, y in ((-1, 0), (1, 0), (0, 1)):
            put(car, x, y)
            frame = renderer.frame()
            assert frame.shape == (240, 240, 3)
            places.append(middle(like(frame, (0, 114, 178))))
    assert places[1][0] - places[0][0] > 60, "x to the right"
    assert places[2][1] < places[0][1] - 20, "y to the back"


def test_opengl_shows_what_is_not_in_the_physics(needs_gl, car):
    car.reset(seed=0)
    car.layout.hazards[:], car.layout.goal[:] = 1.2, (-1, -1)
    put(car, 0, 0)
    with Renderer(car, size=(240, 240)) as renderer:
        frame = renderer.frame()
        hazards, goal = middle(like(frame, VERMILLION)), middle(like(frame, (60, 190, 150)))
        ring = (renderer.frame(overlays=[Ring(np.array([1, -1]), 0.3)]) != frame).any(-1)
        path = renderer.frame(overlays=[Path(np.array([[-1, 1], [0, 1]]), PURPLE)])
        badge = (renderer.frame(overlays=[Status("held back")]) != frame).any(-1)
    assert (hazards > 120).tolist() == [True, False]
    assert (goal > 120).tolist() == [False, True]
    assert (middle(ring) > 120).tolist() == [True, True]
    assert (middle((path != frame).any(-1)) > 120).tolist() == [False, False]
    assert not badge[40:].any()


def test_opengl_warns_and_writes_the_same_line_as_a_drawing(needs_gl, car):
    car.reset(seed=0)
    put(car, *car.layout.hazards[0, 0])
    with Renderer(car, size=(240, 240)) as renderer:
        alert = like(renderer.frame(), (0, 114, 178)).sum()
        same = renderer.frame(caption="now") == draw(car, size=(240, 240), caption="now")
        assert same[222:].all()
        put(car, 0, 5)
        assert like(renderer.frame(), (0, 114, 178)).sum() > alert


def test_opengl_follows_the_half_cheetah(needs_gl, runner):
    runner.reset(seed=1)
    state = runner.physics.state["qpos"]
    with Renderer(runner, "mujoco", (240, 240)) as renderer:
        state[0, 0] = 0.5
        here = renderer.frame()
        state[0, 0] = 150.5
        there = renderer.frame()
    assert np.abs(here.astype(int) - there).mean() < 1.0, "the same, 150 m farther on"
    body = like(here[30:], (0, 84, 138))  # below the gauge
    assert abs(middle(body)[0] - 120) < 40


def test_two_renderers_do_not_disturb_each_other_or_the_environment(needs_gl, car, runner):
    car.reset(seed=0)
    runner.reset(seed=0)
    before = dict(os.environ)
    with Renderer(car, "mujoco", (160, 160)) as one:
        alone = []
        for x in (-1, 1):
            put(car, x, 0)
            alone.append(one.frame())
        assert (alone[0] != alone[1]).any()
        with Renderer(runner, "mujoco", (200, 160)) as two:
            assert two.frame().shape == (160, 200, 3)
            put(car, -1, 0)
            assert (one.frame() == alone[0]).all()
        put(car, 1, 0)
        assert (one.frame() == alone[1]).all()
    assert dict(os.environ) == before
    assert os.environ.get("PYOPENGL_PLATFORM") == PLATFORM_AT_IMPORT
