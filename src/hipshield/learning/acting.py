"""Acting: a policy's actions for a batch of robots, in NumPy.

A batch of twenty robots needs three small matrix products. NumPy does them in a quarter of the
time that a compiled JAX function takes to be called, and acting is what every step waits for.
Gradients, and everything that a policy's probability matters for, are JAX's (`networks.py`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from hipshield.learning.networks import Policy, Squashed
from hipshield.learning.normaliser import CLIP, Normaliser, spread_of

Actor = Callable[[np.ndarray, Any], np.ndarray]  # (inputs, noise) -> actions, not yet clipped

# (inputs, proposed actions) -> the actions to execute, and facts about them, one value a robot
Layer = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, dict[str, np.ndarray]]]


class Pilot(NamedTuple):
    """Who acts.

    Attributes:
        act: the policy.
        layer: what corrects its actions, as a part of it, if there is one.
        guard: a shield (`guard.py`) around both, if there is one; it has the last word.
    """

    act: Actor
    layer: Layer | None = None
    guard: Any = None


def make_eyes(stats: Normaliser) -> Callable[[np.ndarray], np.ndarray]:
    """Return inputs ↦ normalised inputs, in single precision."""
    mean, scale = np.asarray(stats.mean), np.asarray(spread_of(stats))
    # The bounds go through JAX in training, too: NumPy keeps NaN, as JAX does.
    return lambda x: np.minimum(np.maximum((x - mean) / scale, -CLIP), CLIP)


def evaluate_net(net: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
    """Return a network's outputs, given its weights and biases in turn."""
    for i in range(0, len(net) - 2, 2):
        x = np.tanh(x @ net[i] + net[i + 1])
    return x @ net[-2] + net[-1]


def make_actor(policy: Policy, theta: Any, stats: Normaliser) -> Actor:
    """Return (x, noise) ↦ μ(x) + σ · noise, all in single precision.

    Args:
        policy: its shape.
        theta: its parameters.
        stats: statistics of its inputs.
    """
    *net, log_std = (np.asarray(part) for part in policy.split(theta))
    see, std = make_eyes(stats), np.exp(log_std)
    return lambda x, noise: evaluate_net(net, see(x)) + std * noise


def make_squashed_actor(
    policy: Squashed, theta: Any, stats: Normaliser, exploration: float = 0.0
) -> Actor:
    """Return (x, noise) ↦ tanh(net(x)) + exploration · noise, as `make_actor`."""
    net, see = [np.asarray(part) for part in policy.split(theta)], make_eyes(stats)
    spread = np.float32(exploration)
    return lambda x, noise: np.tanh(evaluate_net(net, see(x))) + spread * noise


def draw_noise(seed: int, epoch: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return the standard normal noise of an epoch's actions, shape (steps, robots, actions)."""
    key = jax.random.fold_in(jax.random.key(seed), epoch)
    return np.asarray(jax.random.normal(key, shape))
