"""The Point and the Car, as MuJoCo model specifications.

Only what collides is in the physics: the floor, the robot, and a task's solid objects
(`worlds/objects.py`). Hazards, goals and walls exist in the sensing and in the pictures.
The figures are those of `docs/worlds.md`.
"""

import mujoco

from hipshield.worlds.task import Task

_GEOM = mujoco.mjtGeom
_JOINT = mujoco.mjtJoint
_SENSOR = mujoco.mjtSensor

AGENT = "agent"
SUBSTEPS = 10
HEIGHT = 0.1  # of the robot's body above the floor, metres
DENSITY = {"point": 1.0, "car": 5.0}
CONDIM = 6  # every contact has sliding, torsional and rolling friction

# Sensors of the observation, in its order, with the number of values MuJoCo gives for each.
SENSORS = {
    "point": (("accelerometer", 3), ("velocimeter", 3), ("gyro", 3), ("magnetometer", 3)),
    "car": (
        *(("accelerometer", 3), ("velocimeter", 3), ("gyro", 3), ("magnetometer", 3)),
        *(("ballangvel_rear", 3), ("ballquat_rear", 4)),
    ),
}
_SITE_SENSORS = {
    "accelerometer": _SENSOR.mjSENS_ACCELEROMETER,
    "velocimeter": _SENSOR.mjSENS_VELOCIMETER,
    "gyro": _SENSOR.mjSENS_GYRO,
    "magnetometer": _SENSOR.mjSENS_MAGNETOMETER,
}

_CAR_BODY = {  # name: (half-sizes, position), all boxes of the chassis
    "agent": ((0.1, 0.1, 0.05), (0.0, 0.0, 0.0)),
    "back_bumper": ((0.1, 0.01, 0.05), (0.0, 0.15, 0.0)),
    "back_connector": ((0.01, 0.025, 0.03), (0.0, 0.125, 0.0)),
    "front_bumper": ((0.05, 0.01, 0.05), (0.0, -0.165, 0.0)),
    "front_connector": ((0.05, 0.03, 0.01), (0.0, -0.13, 0.04)),
}


def new_spec(robot: str) -> mujoco.MjSpec:
    """Return a specification with solver options and floor, ready for a robot."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.timestep = {"point": 0.002, "car": 0.004}[robot]
    # The recorded trajectories come from a converged solver and the older convex collider; with
    # the default tolerance a wheel that lands differs by 1e-5 from them.
    spec.option.tolerance = 1e-12
    spec.option.disableflags |= int(
        mujoco.mjtDisableBit.mjDSBL_NATIVECCD
        | mujoco.mjtDisableBit.mjDSBL_MULTICCD
        # One robot, at most one box: looking for independent parts costs 7 % and finds none.
        | mujoco.mjtDisableBit.mjDSBL_ISLAND
        # A diverged state must be seen and reported, not silently replaced by the initial one.
        | mujoco.mjtDisableBit.mjDSBL_AUTORESET
    )
    spec.worldbody.add_geom(
        name="floor", type=_GEOM.mjGEOM_PLANE, size=[3.5, 3.5, 0.1], condim=CONDIM
    )
    return spec


def add_robot(spec: mujoco.MjSpec, task: Task) -> None:
    """Add the task's robot with its actuators and sensors."""
    {"point": _add_point, "car": _add_car}[task.robot](spec)
    for name, _ in SENSORS[task.robot]:
        if name in _SITE_SENSORS:
            spec.add_sensor(
                name=name,
                type=_SITE_SENSORS[name],
                objtype=mujoco.mjtObj.mjOBJ_SITE,
                objname=AGENT,
            )
    if task.robot == "car":
        for name, kind in (
            ("ballangvel_rear", _SENSOR.mjSENS_BALLANGVEL),
            ("ballquat_rear", _SENSOR.mjSENS_BALLQUAT),
        ):
            spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname="rear")


def _add_point(spec: mujoco.MjSpec) -> None:
    """A sphere with a nose: it slides along x and y of its start frame and turns about z."""
    body = spec.worldbody.add_body(name=AGENT, pos=[0, 0, HEIGHT])
    body.add_site(name=AGENT)
    for name, kind, axis, damping in (
        ("x", _JOINT.mjJNT_SLIDE, [1, 0, 0], 0.01),
        ("y", _JOINT.mjJNT_SLIDE, [0, 1, 0], 0.01),
        ("z", _JOINT.mjJNT_HINGE, [0, 0, 1], 0.005),
    ):
        body.add_joint(name=name, type=kind, axis=axis, damping=damping)
    common = {"density": DENSITY["point"], "condim": CONDIM}
    body.add_geom(
        name=AGENT,
        type=_GEOM.mjGEOM_SPHERE,
        size=[0.1, 0, 0],
        friction=[1, 0.01, 0.01],
        **common,
    )
    body.add_geom(name="nose", type=_GEOM.mjGEOM_BOX, size=[0.05] * 3, pos=[0.1, 0, 0], **common)
    limits = {"ctrlrange": [-1, 1], "forcerange": [-0.05, 0.05]}
    drive = _add_actuator(spec, "x", mujoco.mjtTrn.mjTRN_SITE, AGENT, gear=0.3, **limits)
    drive.set_to_motor()
    turn = _add_actuator(spec, "z", mujoco.mjtTrn.mjTRN_JOINTINPARENT, "z", gear=0.3, **limits)
    turn.set_to_velocity(kv=1)


def _add_car(spec: mujoco.MjSpec) -> None:
    """A chassis on two driven wheels and a free rear ball. Its front is its body's −y."""
    body = spec.worldbody.add_body(name=AGENT, pos=[0, 0, HEIGHT])
    body.add_site(name=AGENT)
    body.add_joint(name=AGENT, type=_JOINT.mjJNT_FREE, damping=0)
    common = {"density": DENSITY["car"], "condim": CONDIM}
    for name, (size, pos) in _CAR_BODY.items():
        body.add_geom(name=name, type=_GEOM.mjGEOM_BOX, size=size, pos=pos, **common)
    for name, x, inner, outer in (("left", -0.1, -0.055, -0.005), ("right", 0.1, 0.005, 0.055)):
        wheel = body.add_body(name=name, pos=[x, 0.1, -0.05])
        wheel.add_joint(name=name, type=_JOINT.mjJNT_HINGE, axis=[1, 0, 0], damping=0.001)
        wheel.add_geom(
            name=name,
            type=_GEOM.mjGEOM_CYLINDER,
            fromto=[inner, 0, 0, outer, 0, 0],
            size=[0.05, 0, 0],
            **common,
        )
    rear = body.add_body(name="rear", pos=[0, -0.1, -0.05])
    rear.add_joint(name="rear", type=_JOINT.mjJNT_BALL, damping=0.001)
    rear.add_geom(name="rear", type=_GEOM.mjGEOM_SPHERE, size=[0.05, 0, 0], **common)
    for name in ("left", "right"):
        motor = _add_actuator(
            spec,
            name,
            mujoco.mjtTrn.mjTRN_JOINTINPARENT,
            name,
            gear=1.0,
            ctrlrange=[-1, 1],
            forcerange=[-0.02, 0.02],
        )
        motor.set_to_motor()


def _add_actuator(
    spec: mujoco.MjSpec, name: str, kind: mujoco.mjtTrn, target: str, **settings: object
) -> mujoco.MjsActuator:
    """Add an actuator with limited control and force on one scalar transmission."""
    gear = [settings.pop("gear"), 0, 0, 0, 0, 0]
    return spec.add_actuator(
        name=name,
        trntype=kind,
        target=target,
        gear=gear,
        ctrllimited=True,
        forcelimited=True,
        **settings,
    )
