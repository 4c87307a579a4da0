"""Normalisation of observations by their running mean and spread.

The statistics are frozen during an epoch, so that every step of a batch, the probabilities of its
actions and its values see the same inputs; they take in the epoch's observations at its end.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

CLIP = 5.0  # standard deviations
_TINY = 1e-8


class Normaliser(NamedTuple):
    """Running statistics: of n observations, their mean and sum of squared deviations."""

    count: Any
    mean: Any
    squares: Any


def start(size: int) -> Normaliser:
    """Return the statistics of nothing: they leave observations as they are, but clipped."""
    return Normaliser(jnp.zeros(()), jnp.zeros(size), jnp.zeros(size))


def include(stats: Normaliser, x: Any) -> Normaliser:
    """Take in a batch of observations, shape (n, size), by Chan's parallel formula."""
    n, mean = x.shape[0], x.mean(0)
    squares = ((x - mean) ** 2).sum(0)
    total = stats.count + n
    gap = mean - stats.mean
    return Normaliser(
        total,
        stats.mean + gap * n / total,
        stats.squares + squares + gap**2 * stats.count * n / total,
    )


def spread_of(stats: Normaliser) -> Any:
    """Return the standard deviations to divide by, shape (size,)."""
    spread = jnp.sqrt(stats.squares / jnp.maximum(stats.count - 1, 1))
    return jnp.where(spread > _TINY, spread, 1.0)  # a constant input becomes zero, not noise


def normalise(stats: Normaliser, x: Any) -> Any:
    """Return observations with zero mean and unit spread, clipped to ± `CLIP`."""
    return jnp.clip((x - stats.mean) / spread_of(stats), -CLIP, CLIP)
