"""A network as a flat vector: one array holds it, a static shape says how to read it.

A flat vector is what conjugate gradients, line searches and checkpoints want anyway, and an
optimiser's step on it is one fused operation instead of a dozen small ones.
"""

from dataclasses import dataclass
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

Parts = tuple[jax.Array, ...]  # a network's arrays, in the order of its flat vector


@dataclass(frozen=True)
class Mlp:
    """A multilayer perceptron with tanh between its layers.

    Attributes:
        sizes: width of each layer, input first, output last.
    """

    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of parameters."""
        return sum((a + 1) * b for a, b in pairwise(self.sizes))

    def init(self, key: jax.Array) -> jax.Array:
        """Draw parameters uniformly within ±1/√(inputs of the layer), shape (count,)."""
        parts = []
        for a, b in pairwise(self.sizes):
            key, draw = jax.random.split(key)
            bound = 1 / np.sqrt(a)
            parts.append(jax.random.uniform(draw, ((a + 1) * b,), minval=-bound, maxval=bound))
        return jnp.concatenate(parts)

    def split(self, theta: jax.Array) -> Parts:
        """Return weights and biases, layer by layer, of the flat vector."""
        parts, start = [], 0
        for a, b in pairwise(self.sizes):
            parts.append(theta[start : start + a * b].reshape(a, b))
            parts.append(theta[start + a * b : start + (a + 1) * b])
            start += (a + 1) * b
        return tuple(parts)

    def apply(self, theta: jax.Array | Parts, x: jax.Array) -> jax.Array:
        """Evaluate at inputs of shape (..., first size); θ is flat, or split already."""
        parts = theta if isinstance(theta, tuple) else self.split(theta)
        for i in range(0, len(parts), 2):
            x = x @ parts[i] + parts[i + 1]
            if i < len(parts) - 2:
                x = jnp.tanh(x)
        return x
