"""The half-cheetah with segments of any length.

Gymnasium's planar half-cheetah, built from a table of segments, so that a segment's length is a
number and not a text in a file. A length multiplier L scales a segment's capsule (half-length
and centre) and the places where its children are attached; the head keeps its place at the
torso's front end. The total mass stays 14 kg, as in the original, whatever the lengths.

`lengthened` does by arithmetic on compiled arrays, for many robots at once, what a
recompilation of `new_spec(lengths)` would do: 1.3 ms a robot would be a tenth of an episode.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from hipshield.worlds.task import CHEETAH_MOTORS, CHEETAH_SEGMENTS

_GEOM = mujoco.mjtGeom
_JOINT = mujoco.mjtJoint

SUBSTEPS = 5
TOTAL_MASS = 14.0  # kg
RADIUS = 0.046  # of every capsule, metres
TORSO_HALF = 0.5
HEAD_CENTRE, HEAD_ANGLE, HEAD_HALF = (0.6, 0.0, 0.1), 0.87, 0.15
GEARS = (120.0, 90.0, 60.0, 120.0, 60.0, 30.0)


@dataclass(frozen=True)
class Segment:
    """A leg segment: a capsule on a hinge about y, attached to a parent segment.

    Positions are in the parent's (`attach`) or the segment's own (`centre`) body frame, metres;
    `angle` turns the capsule's axis about y, radians.
    """

    parent: str
    attach: tuple[float, float, float]
    centre: tuple[float, float, float]
    half: float
    angle: float
    damping: float
    stiffness: float
    span: tuple[float, float]


SEGMENTS = {
    "bthigh": Segment(
        "torso", (-0.5, 0, 0), (0.1, 0, -0.13), 0.145, -3.8, 6.0, 240.0, (-0.52, 1.05)
    ),
    "bshin": Segment(
        "bthigh", (0.16, 0, -0.25), (-0.14, 0, -0.07), 0.15, -2.03, 4.5, 180.0, (-0.785, 0.785)
    ),
    "bfoot": Segment(
        "bshin", (-0.28, 0, -0.14), (0.03, 0, -0.097), 0.094, -0.27, 3.0, 120.0, (-0.4, 0.785)
    ),
    "fthigh": Segment(
        "torso", (0.5, 0, 0), (-0.07, 0, -0.12), 0.133, 0.52, 4.5, 180.0, (-1.0, 0.7)
    ),
    "fshin": Segment(
        "fthigh", (-0.14, 0, -0.24), (0.065, 0, -0.09), 0.106, -0.6, 3.0, 120.0, (-1.2, 0.87)
    ),
    "ffoot": Segment(
        "fshin", (0.13, 0, -0.18), (0.045, 0, -0.07), 0.07, -0.6, 1.5, 60.0, (-0.5, 0.5)
    ),
}


def capsule_volume(half: np.ndarray) -> np.ndarray:
    """Volume of a capsule of the common radius, cubic metres."""
    return np.pi * RADIUS**2 * (2 * half + 4 / 3 * RADIUS)


def new_spec(lengths: dict[str, float] | None = None) -> mujoco.MjSpec:
    """Return the specification of a half-cheetah with the given length multipliers."""
    scale = dict.fromkeys(CHEETAH_SEGMENTS, 1.0) | (lengths or {})
    halves = [TORSO_HALF * scale["torso"], HEAD_HALF]
    halves += [s.half * scale[n] for n, s in SEGMENTS.items()]
    volume = float(capsule_volume(np.array(halves)).sum())
    geom = {
        "type": _GEOM.mjGEOM_CAPSULE,
        "density": TOTAL_MASS / volume,
        **_contact(),
        "contype": 1,
        "conaffinity": 0,
    }
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.timestep = 0.01
    # Lengths are changed in compiled arrays; without the mid-phase no bounding-volume tree has
    # to follow them. Every geom only meets the floor, so it would save nothing either.
    spec.option.disableflags |= int(
        mujoco.mjtDisableBit.mjDSBL_MIDPHASE | mujoco.mjtDisableBit.mjDSBL_AUTORESET
    )
    spec.worldbody.add_geom(
        name="floor", type=_GEOM.mjGEOM_PLANE, size=[40, 40, 40], **_contact(), conaffinity=1
    )
    bodies = {"torso": _add_torso(spec, geom, scale["torso"])}
    for name, segment in SEGMENTS.items():
        attach = np.multiply(segment.attach, scale[segment.parent])
        body = bodies[segment.parent].add_body(name=name, pos=attach)
        _add_hinge(body, name, segment)
        body.add_geom(
            name=name,
            size=[RADIUS, segment.half * scale[name], 0],
            pos=np.multiply(segment.centre, scale[name]),
            quat=_about_y(segment.angle),
            **geom,
        )
        bodies[name] = body
    for name, gear in zip(CHEETAH_MOTORS, GEARS, strict=True):
        motor = spec.add_actuator(
            name=name,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            target=name,
            gear=[gear, 0, 0, 0, 0, 0],
            ctrllimited=True,
            ctrlrange=[-1, 1],
        )
        motor.set_to_motor()
    return spec


def _contact() -> dict[str, object]:
    return {
        "condim": 3,
        "friction": [0.4, 0.1, 0.1],
        "solimp": [0.0, 0.8, 0.01, 0.5, 2.0],
        "solref": [0.02, 1.0],
    }


def _add_torso(spec: mujoco.MjSpec, geom: dict[str, object], scale: float) -> mujoco.MjsBody:
    """The root: a planar floating body with the head on it."""
    body = spec.worldbody.add_body(name="torso", pos=[0, 0, 0.7])
    for name, kind, axis in (
        ("rootx", _JOINT.mjJNT_SLIDE, [1, 0, 0]),
        ("rootz", _JOINT.mjJNT_SLIDE, [0, 0, 1]),
        ("rooty", _JOINT.mjJNT_HINGE, [0, 1, 0]),
    ):
        body.add_joint(name=name, type=kind, axis=axis)
    half = TORSO_HALF * scale
    body.add_geom(
        name="torso", size=[RADIUS, half, 0], pos=[0, 0, 0], quat=_about_y(-np.pi / 2), **geom
    )
    head = (HEAD_CENTRE[0] + half - TORSO_HALF, 0.0, HEAD_CENTRE[2])
    body.add_geom(
        name="head", size=[RADIUS, HEAD_HALF, 0], pos=head, quat=_about_y(HEAD_ANGLE), **geom
    )
    return body


def _add_hinge(body: mujoco.MjsBody, name: str, segment: Segment) -> None:
    body.add_joint(
        name=name,
        type=_JOINT.mjJNT_HINGE,
        axis=[0, 1, 0],
        armature=0.1,
        damping=segment.damping,
        stiffness=segment.stiffness,
        limited=True,
        range=segment.span,
        solimp_limit=[0.0, 0.8, 0.03, 0.5, 2.0],
        solref_limit=[0.02, 1.0],
    )


def _about_y(angle: float) -> list[float]:
    return [np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0]


def lengthened(model: mujoco.MjModel, lengths: np.ndarray) -> dict[str, np.ndarray]:
    """Return the model fields that the segments' lengths change, for n robots at once.

    Args:
        model: the compiled half-cheetah of unit lengths.
        lengths: multipliers, shape (n, 7), in the order of `CHEETAH_SEGMENTS`.

    Returns:
        Field name -> array of shape (n, *field shape).
    """
    n = len(lengths)
    scale = dict(zip(CHEETAH_SEGMENTS, lengths.T, strict=True))
    size, gpos = _tiled(model.geom_size, n), _tiled(model.geom_pos, n)
    bpos = _tiled(model.body_pos, n)
    size[:, model.geom("torso").id, 1] *= scale["torso"]
    gpos[:, model.geom("head").id, 0] += TORSO_HALF * (scale["torso"] - 1)
    for name, segment in SEGMENTS.items():
        geom, body = model.geom(name).id, model.body(name).id
        size[:, geom, 1] *= scale[name]
        gpos[:, geom] *= scale[name][:, None]
        bpos[:, body] *= scale[segment.parent][:, None]
    fields = {"geom_size": size, "geom_pos": gpos, "body_pos": bpos}
    capsules = size[:, 1:, 1] + RADIUS  # geom 0 is the floor
    fields["geom_rbound"] = _tiled(model.geom_rbound, n)
    fields["geom_rbound"][:, 1:] = capsules
    fields["geom_aabb"] = _tiled(model.geom_aabb, n)
    fields["geom_aabb"][:, 1:, 5] = capsules
    return fields | _inertial(model, size, gpos)


def _tiled(array: np.ndarray, n: int) -> np.ndarray:
    return np.broadcast_to(array, (n, *array.shape)).copy()


def _inertial(model: mujoco.MjModel, size: np.ndarray, gpos: np.ndarray) -> dict[str, np.ndarray]:
    """Masses and inertias of the bodies whose capsules have the given sizes and places."""
    n, half = len(size), size[:, :, 1]
    volume = capsule_volume(half)
    volume[:, 0] = 0  # the floor
    mass = TOTAL_MASS * volume / volume.sum(1, keepdims=True)
    across, along = _capsule_inertia(mass, half)
    fields = {
        name: _tiled(getattr(model, name), n)
        for name in ("body_mass", "body_inertia", "body_ipos", "body_iquat")
    }
    for name in SEGMENTS:
        geom, body = model.geom(name).id, model.body(name).id
        fields["body_mass"][:, body] = mass[:, geom]
        fields["body_ipos"][:, body] = gpos[:, geom]
        # The compiled principal axes are the capsule's, largest first: two across, one along.
        fields["body_inertia"][:, body, :2] = across[:, geom, None]
        fields["body_inertia"][:, body, 2] = along[:, geom]
    pair = [model.geom("torso").id, model.geom("head").id]
    angles = np.array([-np.pi / 2, HEAD_ANGLE])
    torso = _join(mass[:, pair], gpos[:, pair], across[:, pair], along[:, pair], angles)
    for name, value in zip(fields, torso, strict=True):
        fields[name][:, model.body("torso").id] = value
    return fields


def _capsule_inertia(mass: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moments of inertia of capsules across and along their axis: cylinder + two half-balls."""
    ball_share = (4 / 3 * RADIUS) / (2 * half + 4 / 3 * RADIUS)
    ball, tube = mass * ball_share, mass * (1 - ball_share)
    along = tube * RADIUS**2 / 2 + ball * 0.4 * RADIUS**2
    across = tube * (3 * RADIUS**2 + (2 * half) ** 2) / 12
    across = across + ball * (0.4 * RADIUS**2 + half**2 + 0.75 * half * RADIUS)
    return across, along


def _join(
    mass: np.ndarray, pos: np.ndarray, across: np.ndarray, along: np.ndarray, angles: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Join capsules of one body, whose axes lie in its x-z plane, into one rigid body.

    Masses and moments have shape (n, capsules), centres (n, capsules, 3); `angles` turns each
    capsule's z axis about y.

    Returns:
        Mass (n,), principal moments (n, 3), centre (n, 3), orientation as quaternion (n, 4).
    """
    total = mass.sum(1)
    centre = (mass[..., None] * pos).sum(1) / total[:, None]
    x, z = (pos[..., 0] - centre[:, None, 0]), (pos[..., 2] - centre[:, None, 2])
    ax, az = np.sin(angles), np.cos(angles)  # the capsules' axes in the plane
    slim = along - across
    ixx = (across + slim * ax**2 + mass * z**2).sum(1)
    izz = (across + slim * az**2 + mass * x**2).sum(1)
    ixz = (slim * ax * az - mass * x * z).sum(1)
    iyy = (across + mass * (x**2 + z**2)).sum(1)
    # Turning by `turn` about y makes the tensor diagonal: tan(2 turn) = 2 ixz / (izz − ixx).
    turn = 0.5 * np.arctan2(2 * ixz, izz - ixx)
    c, s = np.cos(turn), np.sin(turn)
    first = c**2 * ixx - 2 * c * s * ixz + s**2 * izz
    third = s**2 * ixx + 2 * c * s * ixz + c**2 * izz
    zero = np.zeros_like(turn)
    quat = np.stack([np.cos(turn / 2), zero, np.sin(turn / 2), zero], axis=1)
    return total, np.stack([first, iyy, third], axis=1), centre, quat
