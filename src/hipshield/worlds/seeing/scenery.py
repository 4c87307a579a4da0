"""What MuJoCo's renderer shows: materials, lights, cameras, and what is not in the physics.

The model that is shown is compiled apart from the one that moves, from the same description plus
textures and lights, so the physics never carry decoration. Each frame takes the places and sizes
of one robot's own bodies. Hazards, goals, walls and overlays are added to the scene.
"""

import math
from itertools import pairwise
from typing import Any

import mujoco
import numpy as np

from hipshield.worlds.objectives import View, marker_height
from hipshield.worlds.objects import BOX
from hipshield.worlds.physics import machine_of
from hipshield.worlds.seeing.canvas import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    Overlay,
    Path,
    Ring,
)
from hipshield.worlds.seeing.plan_view import MOST_ZOOM, grown, usual_box
from hipshield.worlds.task import (
    ButtonObjective,
    CircleObjective,
    GoalObjective,
    PushObjective,
    Task,
)

MOST_GEOMS = 4000
_PATH_PIECES = 200  # more would not be seen
_PIXEL = 0.01  # metres of line width for a pixel of a drawing's
_LINE_HEIGHT = 0.014  # above hazards and the tint of unsafe floor, so that lines stay visible
_KIND = mujoco.mjtGeom
_FRONT = ("nose", "front_bumper", "front_connector")  # the parts that show where the front is
# MuJoCo takes a capsule's place from its body's centre of mass where the two agree.
_PLACES = ("body_pos", "body_quat", "body_ipos", "body_iquat", "geom_pos", "geom_quat", "geom_size")
TRACK_PERIOD = 2.0  # metres after which the floor looks the same again


def _rgba(colour: tuple[int, ...], opacity: float = 1.0) -> np.ndarray:
    """Return a colour of the palette as MuJoCo wants it."""
    opacity = colour[3] / 255 if len(colour) == 4 else opacity
    return np.array([*(c / 255 for c in colour[:3]), opacity], np.float32)


def new_visual_model(task: Task, size: tuple[int, int]) -> mujoco.MjModel:
    """Return a model of a task's bodies that looks decent, for pictures of a size in pixels."""
    spec = machine_of(task).spec(task)
    spec.visual.global_.offwidth, spec.visual.global_.offheight = size
    spec.visual.quality.offsamples, spec.visual.quality.shadowsize = 4, 2048
    light = spec.visual.headlight
    light.ambient, light.diffuse, light.specular = [0.45] * 3, [0.15] * 3, [0.0] * 3
    spec.visual.map.shadowclip, spec.visual.map.znear = 1.5, 0.02
    spec.stat.extent, spec.stat.center = 3.0, [0, 0, 0]
    _add_surfaces(spec)
    spec.worldbody.add_light(
        pos=[-1.4, -1.8, 4], dir=[0.35, 0.45, -1], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        diffuse=[0.42] * 3, ambient=[0.0] * 3, specular=[0.1] * 3, castshadow=True,
    )  # fmt: skip
    for geom in spec.geoms:
        geom.rgba = _rgba(_colour_of(geom.name))
    floor = spec.geom("floor")
    floor.material, floor.rgba = "floor", [1, 1, 1, 1]
    floor.size = [0, 0, 0.1]  # endless, for robots that run away
    model = spec.compile()
    if hasattr(model, "geom_castshadow"):  # else the floor's shadow on itself makes stripes
        model.geom_castshadow[model.geom("floor").id] = False
    return model


def _add_surfaces(spec: mujoco.MjSpec) -> None:
    """A light sky, and a floor whose lines are a metre apart."""
    texture = mujoco.mjtTexture
    spec.add_texture(
        name="sky", type=texture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.98, 0.98, 0.98], rgb2=[0.84, 0.88, 0.92], width=64, height=384,
    )  # fmt: skip
    spec.add_texture(
        name="floor", type=texture.mjTEXTURE_2D, builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.93, 0.935, 0.94], rgb2=[0.87, 0.88, 0.89], width=256, height=256,
    )  # fmt: skip
    material = spec.add_material(name="floor", texuniform=True, texrepeat=[1, 1])
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "floor"
    material.reflectance, material.specular = 0.0, 0.0


def _colour_of(name: str) -> tuple[int, int, int]:
    """Return the colour of a body part, as in the drawings."""
    if name == BOX:
        return ORANGE
    by_start = {"post": (176, 118, 0), "pillar": (120, 126, 134), "button": PURPLE, "bthigh": BLUE,
                "bshin": BLUE, "bfoot": BLUE, "fthigh": SKY, "fshin": SKY, "ffoot": SKY,
                "torso": (0, 84, 138), "head": (0, 84, 138), "left": (38, 44, 52),
                "right": (38, 44, 52), "rear": (120, 126, 134)}  # fmt: skip
    if name in _FRONT:
        return YELLOW
    return next((c for start, c in by_start.items() if name.startswith(start)), BLUE)


def robot_geoms(model: mujoco.MjModel) -> np.ndarray:
    """Return the ids of the robot's geoms that take the warning colour: all but its front."""
    others = ("floor", "button", "pillar", "post", BOX, *_FRONT)
    names = [model.geom(i).name for i in range(model.ngeom)]
    return np.array([i for i, name in enumerate(names) if not name.startswith(others)])


def take_places(shown: mujoco.MjModel, moved: mujoco.MjModel) -> None:
    """Give the shown model the body places and geom sizes of a robot's own model."""
    for field in _PLACES:
        getattr(shown, field)[:] = getattr(moved, field)
    shown.geom_size[shown.geom("floor").id, :2] = 0  # endless, whatever the physics have


def colour_buttons(
    model: mujoco.MjModel, objective: ButtonObjective, view: View, robot: int
) -> None:
    """Colour the goal button; all fade while the robot cannot see them."""
    opacity = 0.35 if view.timer[robot] > 0 else 1.0
    for i in range(objective.count):
        goal = i == int(view.goal_button[robot])
        model.geom(f"button{i}").rgba[:] = _rgba(GREEN if goal else PURPLE, opacity)


def aim_at_runner(camera: mujoco.MjvCamera, x: float, ratio: float) -> None:
    """Turn the camera to a half-cheetah at a place along its track, from the side."""
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.lookat[:] = x, 0, 0.6
    camera.azimuth, camera.elevation, camera.distance = 90.0, -10.0, 3.3 / min(ratio, 1.0)


def aim_from_above(
    camera: mujoco.MjvCamera, task: Task, view: View, robot: int, ratio: float
) -> None:
    """Turn the camera to a robot and its whole area, from behind and above.

    Args:
        camera: to turn.
        task: what is seen.
        view: where things are.
        robot: whose world.
        ratio: width / height of the picture.
    """
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    place = view.position[robot, :2]
    box = np.array(grown(usual_box(task), place[None], MOST_ZOOM))
    middle, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2
    lean = np.clip(0.15 * (place - middle), -0.3, 0.3)  # follows the robot a little
    camera.lookat[:2], camera.lookat[2] = middle + lean, 0
    camera.azimuth, camera.elevation = 90.0, -58.0  # x to the right, as in the drawings
    camera.distance = 2.3 * max(half[0] / ratio, half[1])


class Decorator:
    """Adds shapes to a scene that no physics know."""

    def __init__(self, scene: mujoco.MjvScene) -> None:
        self.scene = scene

    def _next(self) -> Any:
        """Return the next free geom, or None in a full scene."""
        if self.scene.ngeom >= self.scene.maxgeom:
            return None
        self.scene.ngeom += 1
        return self.scene.geoms[self.scene.ngeom - 1]

    def shape(self, kind: Any, size: tuple[float, ...], place: Any, rgba: np.ndarray) -> None:
        """Add an upright shape: sizes as MuJoCo defines them, place (3,), metres."""
        geom = self._next()
        if geom is not None:
            turn = np.eye(3).ravel()
            mujoco.mjv_initGeom(geom, kind, np.array(size), np.array(place, float), turn, rgba)
            geom.category = mujoco.mjtCatBit.mjCAT_DECOR

    def disc(self, centre: Any, radius: float, rgba: np.ndarray, half: float = 0.004) -> None:
        """Add a flat cylinder on the floor."""
        place = (centre[0], centre[1], half + 0.003)
        self.shape(_KIND.mjGEOM_CYLINDER, (radius, half, 0.0), place, rgba)

    def line(self, points: np.ndarray, rgba: np.ndarray, width: float, upright: bool) -> None:
        """Add a line as a row of thin boxes: on software OpenGL far quicker than capsules.

        Args:
            points: metres, shape (n, 2).
            rgba: colour, shape (4,).
            width: metres.
            upright: in the plane y = 0 instead of on the floor.
        """
        points = np.asarray(points, float)
        points = points[np.isfinite(points).all(1)]
        if len(points) > _PATH_PIECES:
            points = points[np.linspace(0, len(points) - 1, _PATH_PIECES).astype(int)]
        for start, stop in pairwise(points):
            along, length = stop - start, float(np.linalg.norm(stop - start))
            if length > 0:
                half = (length / 2 + width / 4, width / 2, 0.003)
                self._piece((start + stop) / 2, along / length, half, rgba, upright)

    def _piece(
        self, middle: np.ndarray, along: np.ndarray, half: tuple[float, ...], rgba: np.ndarray,
        upright: bool,
    ) -> None:  # fmt: skip
        geom = self._next()
        if geom is None:
            return
        (x, y), (u, v) = middle, along
        flat = np.array([(u, -v, 0), (v, u, 0), (0, 0, 1.0)])
        turn = np.array([(u, -v, 0), (0, 0, -1.0), (v, u, 0)]) if upright else flat
        place = np.array((x, -0.06, y) if upright else (x, y, _LINE_HEIGHT))
        mujoco.mjv_initGeom(geom, _KIND.mjGEOM_BOX, np.array(half), place, turn.ravel(), rgba)
        geom.category = mujoco.mjtCatBit.mjCAT_DECOR
        geom.emission = 0.2  # overlays are information: no shade should hide their colour

    def ring(
        self, centre: Any, radius: float, rgba: np.ndarray, width: float, upright: bool = False
    ) -> None:
        """Add a circle: place, radius and line width in metres."""
        angles = np.linspace(0, 2 * math.pi, 49)
        unit = np.stack([np.cos(angles), np.sin(angles)], 1)
        self.line(np.asarray(centre, float)[:2] + radius * unit, rgba, width, upright)

    def world(self, task: Task, view: View, robot: int) -> None:
        """Add a task's hazards, goal, circle and walls."""
        objective = task.objective
        for centre in view.hazards[robot]:
            self.disc(centre, task.hazards.radius, _rgba(VERMILLION, 0.25))
            self.disc(centre, 0.93 * task.hazards.radius, _rgba(VERMILLION, 0.2), 0.006)
        if isinstance(objective, GoalObjective | PushObjective):
            self._goal(view.goal[robot], objective.radius)
        elif isinstance(objective, ButtonObjective):
            self._goal(view.goal[robot], objective.marker_radius)
        elif isinstance(objective, CircleObjective):
            self._circle(objective)

    def _goal(self, centre: np.ndarray, radius: float) -> None:
        place = (*centre, marker_height(radius))
        self.shape(_KIND.mjGEOM_CYLINDER, (radius, radius / 2, 0.0), place, _rgba(GREEN, 0.22))
        self.ring(centre, radius, _rgba(GREEN), 0.03)

    def _circle(self, objective: CircleObjective) -> None:
        self.ring(np.zeros(2), objective.radius, _rgba(GREEN), 0.035)
        if objective.wall is None:
            return
        w, far = objective.wall, 4.0
        middle, out = (w + far) / 2, (far - w) / 2
        for sign in (-1, 1):
            tint, wall = _rgba(VERMILLION, 0.16), _rgba(VERMILLION, 0.5)
            floor = ((far, out, 0.002), (0, sign * middle, 0.003)), ((out, w, 0.002),
                     (sign * middle, 0, 0.003))  # fmt: skip
            upright = ((w, 0.012, 0.06), (0, sign * w, 0.06)), ((0.012, w, 0.06),
                       (sign * w, 0, 0.06))  # fmt: skip
            for half, place in floor:
                self.shape(_KIND.mjGEOM_BOX, half, place, tint)
            for half, place in upright:
                self.shape(_KIND.mjGEOM_BOX, half, place, wall)

    def overlay(self, overlays: tuple[Overlay, ...], upright: bool, shift: float) -> None:
        """Add paths and rings: on the floor, or `upright` in the half-cheetah's plane.

        Args:
            overlays: in world coordinates.
            upright: whether their second coordinate is the height.
            shift: what the scene's x is smaller than the world's, metres.
        """
        for item in overlays:
            if isinstance(item, Ring):
                centre = np.asarray(item.centre, float)[:2] - (shift, 0)
                self.ring(centre, item.radius, _rgba(item.colour), 0.02, upright)
            elif isinstance(item, Path):
                points = np.asarray(item.points, float)[:, :2] - (shift, 0)
                self.line(points, _rgba(item.colour), _PIXEL * item.width, upright)
