"""The Lagrangian constraint: a multiplier λ that grows while episodes cost more than the limit."""

from typing import Any

import jax
import jax.numpy as jnp

from hipshield.learning.state import ADAM, TrainState

RATE = 0.035  # of Adam on λ
START = 0.001  # λ before the first update


def update_multiplier(
    state: TrainState, episode_cost: Any, limit: float, rate: float = RATE
) -> TrainState:
    """Take one Adam step on −λ (J_C − limit), and keep λ at or above zero."""
    gradient = -(episode_cost - limit)
    update, opt = ADAM.update(jnp.asarray(gradient, jnp.float32), state.multiplier_opt)
    multiplier = jnp.maximum(state.multiplier - rate * update, 0.0)
    return state._replace(multiplier=multiplier, multiplier_opt=opt)


def penalised(reward: jax.Array, cost: jax.Array, multiplier: Any) -> jax.Array:
    """Return (A_R − λ A_C) / (1 + λ); at λ = 0 exactly A_R."""
    return (reward - multiplier * cost) / (1 + multiplier)
