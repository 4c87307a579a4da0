"""Acting: a policy's actions for a batch of robots, in NumPy.

A batch of twenty robots needs three small matrix products. NumPy does them in a quarter of the
time that a compiled JAX function takes to be called, and acting is what every step waits for.
Gradients, and everything that a policy's probability matters for, are JAX's (`networks.py`).
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from hipshield.learning.networks import Policy
from hipshield.learning.normaliser import CLIP, Normaliser, spread_of

Actor = Callable[[np.ndarray, Any], np.ndarray]  # (inputs, noise) -> actions, not yet clipped


def make_actor(policy: Policy, theta: Any, stats: Normaliser) -> Actor:
    """Return (x, noise) ↦ μ(x) + σ · noise, all in single precision.

    Args:
        policy: its shape.
        theta: its parameters.
        stats: statistics of its inputs.
    """
    *net, log_std = (np.asarray(part) for part in policy.split(theta))
    layers = [(net[i], net[i + 1]) for i in range(0, len(net), 2)]
    mean, scale = np.asarray(stats.mean), np.asarray(spread_of(stats))
    std = np.exp(log_std)

    def act(x: np.ndarray, noise: Any) -> np.ndarray:
        # The bounds go through JAX in training, too: NumPy keeps NaN, as JAX does.
        hidden = np.minimum(np.maximum((x - mean) / scale, -CLIP), CLIP)
        for weights, bias in layers[:-1]:
            hidden = np.tanh(hidden @ weights + bias)
        weights, bias = layers[-1]
        return hidden @ weights + bias + std * noise

    return act


def draw_noise(seed: int, epoch: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return the standard normal noise of an epoch's actions, shape (steps, robots, actions)."""
    key = jax.random.fold_in(jax.random.key(seed), epoch)
    return np.asarray(jax.random.normal(key, shape))
