"""Motions: which part of what a robot sends moves, and how a predicted change moves it.

A predictor maps (x, a) to a change y; a `Motion` says what x and y are. It turns what the robot
sends, an observation and its safety feature e(s), into a flat *state* z, reads x out of it, and
integrates changes, so that rolling a plan out needs nothing but the predictor's own output:

    z = (pose, now, history)      x = (now, history)      z' = move(z, a, y)

`pose` is integrated with known kinematics and never seen by the network (a robot that is somewhere
else moves just the same), `now` is what drives the motion (velocities), `history` the last few
pairs of `now` and action, for robots that have a state nobody observes (the Car's wheel speeds).

Two makers cover most robots: `planar` (moves in the plane, in its own body's frame) and `plain`
(everything observed moves; differences are predicted). `models/robots.py` has the rows for this
library's robots; a robot of your own needs one call. All functions take arrays with any leading
axes, and never fail on numbers that are not finite.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

Parts = tuple[Any, Any]  # (pose, now)


@dataclass(frozen=True)
class Motion:
    """One robot's description. Sizes are numbers of values; functions are per step.

    Attributes:
        name: how people call it.
        pose, now, actions, history: sizes of the state's parts; history counts steps.
        outputs: size of a change y.
        look: (obs, feature) -> (pose, now).
        change: ((pose, now), (pose, now) after) -> y, the truth that a predictor learns.
        carry: ((pose, now), y) -> (pose, now) after; the inverse of `change`.
        feature: (pose, now) -> e(s), what a safety margin reads.
        unit: of the feature's error, for people.
    """

    name: str
    pose: int
    now: int
    actions: int
    outputs: int
    look: Callable[[Any, Any], Parts]
    change: Callable[[Parts, Parts], Any]
    carry: Callable[[Parts, Any], Parts]
    feature: Callable[[Any, Any], Any]
    history: int = 0
    unit: str = "m"

    @property
    def inputs(self) -> int:
        """Number of values in x."""
        return self.now + self.history * (self.now + self.actions)

    @property
    def size(self) -> int:
        """Number of values in a state z."""
        return self.pose + self.inputs

    def parts(self, z: Any) -> Parts:
        """Return a state's pose and `now`."""
        return z[..., : self.pose], z[..., self.pose : self.pose + self.now]

    def x(self, z: Any) -> Any:
        """Return what a predictor sees of a state, shape (..., inputs)."""
        return z[..., self.pose :]

    def e(self, z: Any) -> Any:
        """Return the safety feature of a state."""
        return self.feature(*self.parts(z))

    def start(self, obs: Any, feature: Any) -> Any:
        """Return the state after a reset: as if the robot had been like this, idle, before."""
        pose, now = self.look(jnp.asarray(obs), jnp.asarray(feature))
        idle = jnp.zeros((*now.shape[:-1], self.actions), now.dtype)
        return jnp.concatenate([pose, now, *[now, idle] * self.history], -1)

    def observe(self, z: Any, action: Any, obs: Any, feature: Any) -> Any:
        """Return the state after acting, from what the robot sent then."""
        seen = self.look(jnp.asarray(obs), jnp.asarray(feature))
        return self._next(z, jnp.asarray(action), seen)

    def truth(self, z: Any, after: Any) -> Any:
        """Return the change y that led from one state to the next."""
        return self.change(self.parts(z), self.parts(after))

    def move(self, z: Any, action: Any, y: Any) -> Any:
        """Return the state that a change y of a state leads to."""
        return self._next(z, action, self.carry(self.parts(z), y))

    def _next(self, z: Any, action: Any, after: Parts) -> Any:
        pose, now = after
        if not self.history:
            return jnp.concatenate([pose, now], -1)
        _, before = self.parts(z)
        pair = self.now + self.actions
        older = z[..., self.pose + self.now :][..., : pair * (self.history - 1)]
        return jnp.concatenate([pose, now, before, action, older], -1)


def planar(
    name: str,
    actions: int,
    now: int,
    look: Callable[[Any, Any], tuple[Any, Any, Any]],
    history: int = 0,
) -> Motion:
    """Return the motion of a robot in the plane, described in its own frame.

    Pose: position (2), and the heading's cosine and sine. Change y: displacement in the frame of
    the body before the step (2), turn in radians (1), difference of `now`.

    Args:
        name: of the robot.
        actions: number of action values.
        now: number of values of x that `look` returns.
        look: (obs, feature) -> (position (..., 2), heading angle (...,), now (..., now)).
        history: steps of history in x.
    """

    def look_parts(obs: Any, feature: Any) -> Parts:
        position, angle, values = look(obs, feature)
        return jnp.concatenate([position, _direction(angle)], -1), values

    def change(before: Parts, after: Parts) -> Any:
        (pose, values), (new_pose, new_values) = before, after
        c, s = pose[..., 2], pose[..., 3]
        dx, dy = new_pose[..., 0] - pose[..., 0], new_pose[..., 1] - pose[..., 1]
        nc, ns = new_pose[..., 2], new_pose[..., 3]
        turn = jnp.arctan2(c * ns - s * nc, c * nc + s * ns)
        step = jnp.stack([c * dx + s * dy, c * dy - s * dx, turn], -1)
        return jnp.concatenate([step, new_values - values], -1)

    def carry(before: Parts, y: Any) -> Parts:
        pose, values = before
        c, s = pose[..., 2], pose[..., 3]
        ahead, aside, turn = y[..., 0], y[..., 1], y[..., 2]
        tc, ts = jnp.cos(turn), jnp.sin(turn)
        moved = [
            pose[..., 0] + c * ahead - s * aside,
            pose[..., 1] + s * ahead + c * aside,
            c * tc - s * ts,
            s * tc + c * ts,
        ]
        return jnp.stack(moved, -1), values + y[..., 3:]

    return Motion(
        name=name,
        pose=4,
        now=now,
        actions=actions,
        outputs=3 + now,
        look=look_parts,
        change=change,
        carry=carry,
        feature=lambda pose, values: pose[..., :2],
        history=history,
    )


def plain(
    name: str,
    actions: int,
    now: int,
    features: int,
    guess: Callable[[Any], Any] | None = None,
    unit: str = "m/s",
) -> Motion:
    """Return the motion of a robot whose whole observation moves.

    The pose is the feature itself. Change y: the feature after the step minus a guess of it, and
    the difference of the observation.

    Args:
        name: of the robot.
        actions: number of action values.
        now: number of values of the observation.
        features: number of values of e(s).
        guess: observation -> a first guess of the next feature, to predict the difference from;
            default: zero.
        unit: of the feature.
    """

    def expected(values: Any) -> Any:
        if guess is None:
            return jnp.zeros((*values.shape[:-1], features), values.dtype)
        return guess(values)

    def change(before: Parts, after: Parts) -> Any:
        (_, values), (pose, new_values) = before, after
        return jnp.concatenate([pose - expected(values), new_values - values], -1)

    def carry(before: Parts, y: Any) -> Parts:
        _, values = before
        return expected(values) + y[..., :features], values + y[..., features:]

    return Motion(
        name=name,
        pose=features,
        now=now,
        actions=actions,
        outputs=features + now,
        look=lambda obs, feature: (feature, obs),
        change=change,
        carry=carry,
        feature=lambda pose, values: pose,
        unit=unit,
    )


def _direction(angle: Any) -> Any:
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1)
