"""A small transformer encoder over a set: what a handful of tokens say together, as one vector.

Tokens are transitions (x, a, y), each of which says something of the robot by itself: which came
first says nothing more. So there is no position in a token, the result does not depend on their
order, and a ring buffer needs no sorting. A learned token, the *readout*, is always in the set:
with no transitions it is all there is, and its result is what the encoder believes beforehand.

Blocks are pre-norm. Their norms have no gains and no shifts, because each feeds a linear layer
that has its own. Of the last block only the readout's row is computed: nobody reads the others.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

_EPS = 1e-5  # of the norms' variances
_GROWTH = 2  # width of a block's inner layer ÷ the block's


class Linear(NamedTuple):
    """Weights, shape (inputs, outputs), and biases."""

    weight: jax.Array
    bias: jax.Array


class Block(NamedTuple):
    """One block's layers: queries, keys and values; what attention adds; the inner network."""

    query: Linear
    key: Linear
    value: Linear
    mix: Linear
    up: Linear
    down: Linear


class Weights(NamedTuple):
    """All parameters: of the tokens' embedding, the readout, the blocks, and the last layer."""

    embed: Linear
    readout: jax.Array
    blocks: tuple[Block, ...]
    head: Linear


@dataclass(frozen=True)
class SetEncoder:
    """Sizes of an encoder.

    Attributes:
        inputs: number of values in a token.
        outputs: number of values in the result.
        width: of a token inside.
        heads: of attention; they divide the width.
        layers: number of blocks.
    """

    inputs: int
    outputs: int
    width: int
    heads: int
    layers: int

    @property
    def count(self) -> int:
        """Number of parameters."""
        w, inner = self.width, _GROWTH * self.width
        block = 4 * (w + 1) * w + (w + 1) * inner + (inner + 1) * w
        return (self.inputs + 1) * w + w + self.layers * block + (w + 1) * self.outputs

    def init(self, key: jax.Array) -> Weights:
        """Draw parameters: layers uniformly within ±1/√inputs, as a network's."""
        w, inner = self.width, _GROWTH * self.width
        keys = iter(jax.random.split(key, 3 + 6 * self.layers))

        def linear(inputs: int, outputs: int) -> Linear:
            bound = inputs**-0.5
            draw = jax.random.uniform(
                next(keys), (inputs + 1, outputs), minval=-bound, maxval=bound
            )
            return Linear(draw[:-1], draw[-1])

        def block() -> Block:
            query, key, value, mix = (linear(w, w) for _ in range(4))
            return Block(query, key, value, mix, linear(w, inner), linear(inner, w))

        readout = jax.random.normal(next(keys), (w,))
        blocks = tuple(block() for _ in range(self.layers))
        return Weights(linear(self.inputs, w), readout, blocks, linear(w, self.outputs))

    def apply(self, weights: Weights, tokens: jax.Array, valid: jax.Array) -> jax.Array:
        """Return what a set of tokens says, shape (outputs,).

        Args:
            weights: the parameters.
            tokens: finite numbers, shape (n, inputs).
            valid: which of them are in the set, shape (n,).
        """
        embedded = _apply(weights.embed, tokens)
        hidden = jnp.concatenate([weights.readout[None], embedded])
        valid = jnp.concatenate([jnp.ones(1, bool), valid])
        for i, block in enumerate(weights.blocks):
            rows = hidden if i < self.layers - 1 else hidden[:1]
            rows = rows + self._attend(block, _norm(rows), _norm(hidden), valid)
            inner = jax.nn.relu(_apply(block.up, _norm(rows)))
            hidden = rows + _apply(block.down, inner)
        return _apply(weights.head, _norm(hidden[0]))

    def _attend(
        self, block: Block, rows: jax.Array, others: jax.Array, valid: jax.Array
    ) -> jax.Array:
        """Return what rows gather from the others, shape (rows, width)."""

        def split(linear: Linear, values: jax.Array) -> list[jax.Array]:
            return jnp.split(_apply(linear, values), self.heads, -1)

        # Head by head: with the heads as an axis of one product, the compiler takes twice as long.
        seen = []
        for query, key, value in zip(
            split(block.query, rows),
            split(block.key, others),
            split(block.value, others),
            strict=True,
        ):
            score = query @ key.T * key.shape[-1] ** -0.5
            seen.append(jax.nn.softmax(jnp.where(valid, score, -jnp.inf), -1) @ value)
        return _apply(block.mix, jnp.concatenate(seen, -1))


def _apply(linear: Linear, values: jax.Array) -> jax.Array:
    return values @ linear.weight + linear.bias


def _norm(values: jax.Array) -> jax.Array:
    centred = values - values.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + _EPS)
