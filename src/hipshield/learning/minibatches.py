"""Passes over data in shuffled minibatches: one compiled loop serves every fit."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from hipshield.learning.state import ADAM

MAX_NORM = 40.0  # of a gradient

Carry = Any
Step = Callable[[Carry, jax.Array], Carry]


def one_pass(carry: Carry, key: jax.Array, rows: int, size: int, step: Step) -> Carry:
    """Run `step` on every minibatch of a fresh shuffle; what does not fill one is left out.

    Args:
        carry: what the steps change.
        key: of the shuffle.
        rows: number of rows of the data.
        size: rows of a minibatch.
        step: takes the carry and the rows' indices, shape (size,).
    """
    count = max(rows // size, 1)
    size = min(size, rows)
    order = jax.random.permutation(key, rows)[: count * size].reshape(count, size)
    return jax.lax.scan(lambda c, i: (step(c, i), None), carry, order)[0]


def descend(
    theta: jax.Array, opt: optax.OptState, gradient: jax.Array, rate: Any
) -> tuple[jax.Array, optax.OptState]:
    """Take one Adam step on a flat vector, its gradient's norm clipped."""
    norm = jnp.sqrt(gradient @ gradient)
    gradient = gradient * jnp.minimum(1.0, MAX_NORM / (norm + 1e-6))
    update, opt = ADAM.update(gradient, opt)
    return theta - rate * update, opt
