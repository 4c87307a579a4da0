"""Pictures of worlds, in three dimensions where OpenGL works and drawn by ourselves elsewhere.

    >>> with Renderer(world) as renderer:
    ...     write_video("run.mp4", (renderer.frame() for _ in steps()), fps=30)

Both ways take the same overlays and write the same line of text, so a caller need not care
which one it got. `Renderer.backend` tells.
"""

from collections.abc import Sequence

import mujoco
import numpy as np
from PIL import Image

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.worlds.seeing.canvas import (
    VERMILLION,
    Overlay,
    checked_size,
    stamp,
    strip_height,
    write_strip,
)
from hipshield.worlds.seeing.drawing import checked_robot, describe, draw
from hipshield.worlds.seeing.offscreen import Offscreen, what_to_install, working_backend
from hipshield.worlds.seeing.scenery import (
    MOST_GEOMS,
    TRACK_PERIOD,
    Decorator,
    aim_at_runner,
    aim_from_above,
    colour_buttons,
    new_visual_model,
    robot_geoms,
    take_places,
)
from hipshield.worlds.seeing.side_view import draw_gauge
from hipshield.worlds.task import ButtonObjective, RunObjective
from hipshield.worlds.world import World

BACKENDS = ("auto", "mujoco", "drawing")


class Renderer:
    """Makes pictures of a world's robots.

    Args:
        world: whose robots.
        backend: 'mujoco' (OpenGL), 'drawing' (our own, works everywhere), or 'auto': the first
            where it works, which is found out once per process, else the second.
        size: (width, height), pixels.

    Attributes:
        backend: 'mujoco' or 'drawing', whichever is used.
        size: (width, height), pixels.

    Raises:
        HipshieldError: the backend is unknown, or 'mujoco' was asked for and OpenGL does not
            work here.
    """

    def __init__(
        self, world: World, backend: str = "auto", size: tuple[int, int] = (480, 480)
    ) -> None:
        if backend not in BACKENDS:
            raise HipshieldError(
                f"Unknown rendering backend '{backend}'." + did_you_mean(str(backend), BACKENDS)
            )
        self.world, self.size = world, checked_size(size)
        self._scenery = None if backend == "drawing" else _open_scenery(world, self.size)
        if backend == "mujoco" and self._scenery is None:
            raise HipshieldError(
                f"OpenGL does not work here. {what_to_install()}, or use backend='drawing'."
            )
        self.backend = "drawing" if self._scenery is None else "mujoco"
        self._closed = False

    def frame(
        self, robot: int = 0, overlays: Sequence[Overlay] = (), caption: str = ""
    ) -> np.ndarray:
        """Return a picture of one robot's world as it is now.

        Args:
            robot: which robot of the batch.
            overlays: see `hipshield.worlds.seeing.drawing`.
            caption: text below the picture.

        Returns:
            uint8, shape (height, width, 3).
        """
        if self._closed:
            raise HipshieldError("This renderer is closed: make a new one.")
        if self._scenery is None:
            return draw(self.world, robot, self.size, overlays, caption)
        return self._scenery.frame(robot, tuple(overlays), caption)

    def close(self) -> None:
        """Free the OpenGL context, if there is one; a second call does nothing."""
        self._closed = True
        if self._scenery is not None:
            self._scenery.close()

    def __enter__(self) -> "Renderer":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def _open_scenery(world: World, size: tuple[int, int]) -> "_Scenery | None":
    """Return a scenery where OpenGL works, else None."""
    backend = working_backend()
    if backend is None:
        return None
    above = (size[0], size[1] - strip_height(size))  # the text strip is not part of the scene
    model = new_visual_model(world.task, above)
    try:
        offscreen = Offscreen(backend, model, above)
    except Exception:
        # The child process could, this one cannot (PyOpenGL is already bound to another
        # platform, or memory is short): drivers raise anything, and a drawing is always there.
        return None
    return _Scenery(world, size, model, offscreen)


class _Scenery:
    """A visual model, its scene and camera, and the OpenGL context that paints them."""

    def __init__(
        self, world: World, size: tuple[int, int], model: mujoco.MjModel, offscreen: Offscreen
    ) -> None:
        self.world, self.size = world, size
        self.model, self._offscreen = model, offscreen
        self.ratio = size[0] / (size[1] - strip_height(size))
        self.data = mujoco.MjData(model)
        self.scene = mujoco.MjvScene(model, MOST_GEOMS)
        self.camera, self.option = mujoco.MjvCamera(), mujoco.MjvOption()
        self._robot = robot_geoms(model)
        self._colours = model.geom_rgba[self._robot].copy()

    def frame(self, robot: int, overlays: tuple[Overlay, ...], caption: str) -> np.ndarray:
        """Return a robot's picture, uint8, shape (height, width, 3)."""
        world = self.world
        strip = describe(world, checked_robot(world, robot), caption)
        self._update(robot, overlays, strip.alert)
        picture = Image.new("RGB", self.size)
        picture.paste(Image.fromarray(self._offscreen.paint(self.scene)))
        stamp(picture, overlays)
        write_strip(picture, strip)
        if isinstance(world.task.objective, RunObjective):
            velocity = float(world.view().velocity[robot])
            draw_gauge(picture, velocity, world.task.objective.velocity_limit)
        return np.array(picture)

    def _update(self, robot: int, overlays: tuple[Overlay, ...], alert: bool) -> None:
        """Put everything where it is now into the scene."""
        task, view = self.world.task, self.world.view()
        take_places(self.model, self.world.physics.models([robot])[0])
        self.model.geom_rgba[self._robot] = self._colours
        if alert:
            self.model.geom_rgba[self._robot, :3] = np.array(VERMILLION) / 255
        if isinstance(task.objective, ButtonObjective):
            colour_buttons(self.model, task.objective, view, robot)
        self.data.qpos[:] = self.world.physics.state["qpos"][robot]
        runs, shift = isinstance(task.objective, RunObjective), 0.0
        if runs:  # stays near the origin, where the light and the floor's end are far away
            shift = float(self.data.qpos[0] // TRACK_PERIOD * TRACK_PERIOD)
            self.data.qpos[0] -= shift
            aim_at_runner(self.camera, float(self.data.qpos[0]), self.ratio)
        else:
            aim_from_above(self.camera, task, view, robot, self.ratio)
        mujoco.mj_forward(self.model, self.data)
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(
            self.model, self.data, self.option, None, self.camera, everything, self.scene
        )
        decorator = Decorator(self.scene)
        decorator.world(task, view, robot)
        decorator.overlay(overlays, runs, shift)

    def close(self) -> None:
        """Free the OpenGL context."""
        self._offscreen.close()
