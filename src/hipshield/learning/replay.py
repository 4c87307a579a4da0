"""The replay: the newest epochs' whole episodes, as arrays that an update draws from.

An episode's observations are kept once: the next one is the next row, and the one after the last
step is a row, too. Epoch e lies in slot e mod epochs, so a replay that is put together from files
is the one that was there before. 1 million transitions of Point-Goal take 270 MB.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hipshield.learning.state import Batch


class Replay(NamedTuple):
    """Episodes of several epochs, observations not normalised.

    Attributes:
        obs: shape (epochs, steps + 1, robots, size).
        action: shape (epochs, steps, robots, actions).
        signal: reward and cost, shape (epochs, steps, robots, 2).
    """

    obs: Any
    action: Any
    signal: Any


def empty_replay(epochs: int, steps: int, robots: int, inputs: int, actions: int) -> Replay:
    """Return a replay with room for some epochs."""
    return Replay(
        jnp.zeros((epochs, steps + 1, robots, inputs)),
        jnp.zeros((epochs, steps, robots, actions)),
        jnp.zeros((epochs, steps, robots, 2)),
    )


def remember(replay: Replay, batch: Batch, epoch: int) -> Replay:
    """Return the replay with an epoch's episodes; the one that was given is used up."""
    rows = Replay(
        np.concatenate([batch.obs, batch.last_obs[None]]),
        batch.action,
        np.stack([batch.reward, batch.cost], axis=-1),
    )
    return _put(replay, rows, epoch % len(replay.obs))


@partial(jax.jit, donate_argnums=0)
def _put(replay: Replay, rows: Replay, slot: jax.Array) -> Replay:
    return jax.tree.map(lambda all_, new: all_.at[slot].set(new), replay, rows)


def draw_rows(key: jax.Array, replay: Replay, epochs: Any, shape: tuple[int, ...]) -> jax.Array:
    """Return numbers of transitions, uniform over the first slots.

    Args:
        key: of the draw.
        replay: what to draw from.
        epochs: slots that are filled.
        shape: of the result.
    """
    _, steps, robots, _ = replay.action.shape
    return jax.random.randint(key, shape, 0, epochs * steps * robots)


def read_rows(replay: Replay, rows: jax.Array) -> tuple[jax.Array, ...]:
    """Return observation, action, reward, cost and next observation of transitions."""
    _, steps, robots, _ = replay.action.shape
    slot, t, robot = rows // (steps * robots), rows // robots % steps, rows % robots
    signal = replay.signal[slot, t, robot]
    return (
        replay.obs[slot, t, robot],
        replay.action[slot, t, robot],
        signal[..., 0],
        signal[..., 1],
        replay.obs[slot, t + 1, robot],
    )
