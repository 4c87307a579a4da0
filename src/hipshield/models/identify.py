"""Identification online: following a batch of robots, and what is believed of each.

    track = begin(predictor, params, obs, feature, phi)
    b     = beliefs(predictor, params, track)                          # context of the policy
    track = observe(predictor, params, track, action, obs, feature)    # after each step

The belief learns from the first transition on and starts anew with each episode. One robot is a
batch of one.
"""

from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hipshield.models.predictor import Predictor

trace_counts: Counter[tuple[str, str]] = Counter()  # (kind, function) -> compilations


class Track(NamedTuple):
    """Where robots are and what is believed of them, one row a robot.

    Attributes:
        z: states of the motion, shape (robots, size).
        belief: the predictor's.
    """

    z: Any
    belief: Any


def begin_one(predictor: Predictor, params: Any, obs: Any, feature: Any, phi: Any) -> Track:
    """Start following one robot."""
    return Track(predictor.motion.start(obs, feature), predictor.start(params, phi))


def observe_one(
    predictor: Predictor, params: Any, track: Track, action: Any, obs: Any, feature: Any
) -> Track:
    """Take in what one robot did, and where that led."""
    motion = predictor.motion
    after = motion.observe(track.z, action, obs, feature)
    y = motion.truth(track.z, after)
    return Track(after, predictor.learn(params, track.belief, motion.x(track.z), action, y))


@partial(jax.jit, static_argnums=0)
def begin(predictor: Predictor, params: Any, obs: Any, feature: Any, phi: Any) -> Track:
    """Start following a batch of robots.

    Args:
        predictor: the model's sizes.
        params: what it learned.
        obs: what the robots sent after their reset, one row a robot.
        feature: e(s), likewise.
        phi: hidden parameters, which only oracles look at.
    """
    trace_counts[predictor.kind, "begin"] += 1
    return jax.vmap(partial(begin_one, predictor, params))(_single(obs), _single(feature), phi)


@partial(jax.jit, static_argnums=0)
def observe(
    predictor: Predictor, params: Any, track: Track, action: Any, obs: Any, feature: Any
) -> Track:
    """Take in one step of a batch of robots."""
    trace_counts[predictor.kind, "observe"] += 1
    step = partial(observe_one, predictor, params)
    return jax.vmap(step)(track, _single(action), _single(obs), _single(feature))


@partial(jax.jit, static_argnums=0)
def beliefs(predictor: Predictor, params: Any, track: Track) -> jax.Array:
    """Return b of each robot, shape (robots, context)."""
    trace_counts[predictor.kind, "beliefs"] += 1
    return jax.vmap(partial(predictor.adapt, params))(track.belief)


def _single(values: Any) -> jax.Array:
    return jnp.asarray(values, jnp.float32)
