"""Foresight: what was predicted of the present, 1, 2, … H steps ago.

A prediction h steps ahead assumes actions, and the robot may take others; comparing the two would
measure the plan's faithfulness, not the model's. So predictions are made again with the actions
really taken. Each step carries all of them on by one:

    P'[1]   = move(z, a, f_b(x(z), a))              made now, with what is believed now
    P'[h+1] = move(P[h], a, f_b[h](x(P[h]), a))     made h steps ago, with what was believed then

which is one evaluation of the model for H states together, instead of H (H + 1) / 2.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hipshield.models.predictor import Predictor


class Foresight(NamedTuple):
    """Predictions of one robot's present state.

    Attributes:
        z: P[h], made h = 1 … H steps ago, shape (H, size).
        b: what was believed when they were made, shape (H, context).
        age: steps since the episode began; longer ago nothing was predicted, shape ().
    """

    z: Any
    b: Any
    age: Any


def begin(predictor: Predictor, horizon: int) -> Foresight:
    """Start an episode: nothing was predicted yet."""
    z = jnp.zeros((horizon, predictor.motion.size))
    return Foresight(z, jnp.zeros((horizon, predictor.context)), jnp.zeros((), jnp.int32))


def advance(
    predictor: Predictor, params: Any, foresight: Foresight, z: Any, b: Any, action: Any
) -> Foresight:
    """Predict the next state, given the action that was really taken.

    Args:
        predictor: the model's sizes.
        params: what it learned.
        foresight: predictions of the present.
        z: the present state, shape (size,).
        b: what is believed at present, shape (context,).
        action: shape (actions,).
    """
    motion = predictor.motion
    starts = jnp.concatenate([z[None], foresight.z[:-1]])
    beliefs = jnp.concatenate([b[None], foresight.b[:-1]])

    def on(z: Any, b: Any) -> Any:
        return motion.move(z, action, predictor.predict(params, b, motion.x(z), action))

    return Foresight(jax.vmap(on)(starts, beliefs), beliefs, foresight.age + 1)


def scores(predictor: Predictor, foresight: Foresight, z: Any) -> tuple[jax.Array, jax.Array]:
    """Return ‖e(P[h]) − e(z)‖ for each lead time h = 1 … H, and which of them there are."""
    feature = predictor.motion.e
    error = jnp.sqrt(((feature(foresight.z) - feature(z)) ** 2).sum(-1))
    return error, jnp.arange(1, len(error) + 1) <= foresight.age
