"""OpenGL without a window: find a backend that works here, and paint MuJoCo scenes with it.

MuJoCo binds `mujoco.Renderer` to one backend when it is imported, from the variable MUJOCO_GL,
and without that variable to one that needs a display. Which backend works can only be found out
by trying, and a broken driver may crash or hang the process that tries. So a short-lived child
process tries first, and contexts are made from `mujoco.egl`, `mujoco.osmesa`, `mujoco.glfw` or
`mujoco.cgl` directly, whatever the variable said at the import. The process's own environment
stays as it is.
"""

import atexit
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import mujoco
import numpy as np

PROBE_SECONDS = 20.0  # importing MuJoCo takes half a second, on a busy machine several
_OFF = ("disable", "disabled", "off", "false", "0")
_NATIVE = {"Darwin": ("cgl", "glfw"), "Windows": ("glfw",)}
_QUIET = {"EGL_LOG_LEVEL": "fatal"}  # Mesa warns about graphics cards that it may not open

# Renders a red ball with the backend in argv[1] and says 'works' if the middle is red.
_PROBE = """
import importlib, json, os, sys
sys.path[:] = json.loads(sys.argv[2])
import mujoco, numpy as np
ball = '<mujoco><worldbody><light pos="0 0 3"/><geom size="1" rgba="1 0 0 1"/></worldbody></mujoco>'
model = mujoco.MjModel.from_xml_string(ball)
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
gl = importlib.import_module("mujoco." + sys.argv[1]).GLContext(64, 64)
gl.make_current()
context = mujoco.MjrContext(model, 100)
mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
scene, camera = mujoco.MjvScene(model, 10), mujoco.MjvCamera()
mujoco.mjv_defaultFreeCamera(model, camera)
mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, camera, 7, scene)
rect, pixels = mujoco.MjrRect(0, 0, 64, 64), np.zeros((64, 64, 3), np.uint8)
mujoco.mjr_render(rect, scene, context)
mujoco.mjr_readPixels(pixels, None, rect, context)
red, green, blue = (int(v) for v in pixels[32, 32])
print("works" if red > 2 * max(green, blue, 20) else "paints nothing", flush=True)
os._exit(0)  # some drivers make trouble at the end, which this process ends without
"""


def candidates() -> tuple[str, ...]:
    """Return the backends to try, best first: what MUJOCO_GL asks for, then headless ones."""
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in _OFF:
        return ()
    native = _NATIVE.get(platform.system(), ("egl", "osmesa"))
    if platform.system() == "Linux" and (os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}):
        native = (*native, "glfw")
    known = ("egl", "osmesa", "glfw", "cgl")
    asked = {"glx": "glfw", "wgl": "glfw"}.get(asked, asked)
    return tuple(dict.fromkeys((*((asked,) if asked in known else ()), *native)))


@lru_cache(maxsize=1)
def working_backend() -> str | None:
    """Return the first backend that paints, or None; found out once per process."""
    return next((name for name in candidates() if _paints(name)), None)


def _paints(backend: str) -> bool:
    """Let a child process try a backend."""
    if not sys.executable:
        return False
    places = json.dumps([os.path.abspath(p) for p in sys.path])
    try:
        # In a directory of its own, because MuJoCo writes its log where it is started.
        with tempfile.TemporaryDirectory() as here:
            done = subprocess.run(
                [sys.executable, "-c", _PROBE, backend, places],
                env={**_QUIET, **os.environ, "MUJOCO_GL": backend},
                cwd=here,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=PROBE_SECONDS,
                check=False,
            )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and done.stdout.strip() == b"works"


def what_to_install() -> str:
    """Return what a person can do when no backend works."""
    if os.environ.get("MUJOCO_GL", "").lower().strip() in _OFF:
        return "MUJOCO_GL switches OpenGL off: unset it"
    if platform.system() == "Linux":
        return "Install libegl1 (or libosmesa6) with your package manager"
    return "Install a graphics driver with OpenGL"


@contextmanager
def _kept_environment() -> Iterator[None]:
    """Undo what making a context does to the environment: `mujoco.egl` sets a variable."""
    before = {name: os.environ.get(name) for name in ("PYOPENGL_PLATFORM", *_QUIET)}
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old


_open: "weakref.WeakSet[Offscreen]" = weakref.WeakSet()


@lru_cache(maxsize=1)
def _close_at_exit() -> None:
    """Close what is still open before Python takes its modules, and OpenGL, apart."""
    atexit.register(_close_all)


def _close_all() -> None:
    for offscreen in tuple(_open):
        offscreen.close()


class Offscreen:
    """Paints scenes of one model into memory. Owns an OpenGL context until it is closed.

    Args:
        backend: 'egl', 'osmesa', 'glfw' or 'cgl'.
        model: whose textures the scenes use.
        size: (width, height), pixels; at most the model's offscreen buffer.
    """

    def __init__(self, backend: str, model: mujoco.MjModel, size: tuple[int, int]) -> None:
        self._gl: Any = None
        self._context: mujoco.MjrContext | None = None
        self._rect = mujoco.MjrRect(0, 0, *size)
        self._pixels = np.empty((size[1], size[0], 3), np.uint8)
        with _kept_environment():
            self._gl = importlib.import_module(f"mujoco.{backend}").GLContext(*size)
            self._gl.make_current()
        # Registered after the backend's own hook, so that it runs before it.
        _close_at_exit()
        _open.add(self)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)

    def paint(self, scene: mujoco.MjvScene) -> np.ndarray:
        """Return the scene's picture, uint8, shape (height, width, 3)."""
        self._gl.make_current()  # another context may have been used since
        mujoco.mjr_render(self._rect, scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        return self._pixels[::-1].copy()  # OpenGL counts rows from below

    def close(self) -> None:
        """Free the context; a second call does nothing."""
        context, gl, self._context, self._gl = self._context, self._gl, None, None
        if context is not None:
            gl.make_current()
            context.free()
        if gl is not None:
            gl.free()

    def __del__(self) -> None:
        self.close()
