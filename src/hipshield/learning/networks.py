"""The networks of a run: policies and critics, each a flat vector (`mlp.py`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hipshield.mlp import Mlp, Parts

LOG_2PI = float(np.log(2 * np.pi))


class Gaussian(NamedTuple):
    """Independent normal distributions of actions.

    Attributes:
        mean: shape (..., actions).
        log_std: broadcasts against the mean.
    """

    mean: Any
    log_std: Any

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw one action for each mean."""
        return self.mean + jnp.exp(self.log_std) * jax.random.normal(key, self.mean.shape)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Log density, shape (...,)."""
        z = (action - self.mean) * jnp.exp(-self.log_std)
        return (-0.5 * z**2 - self.log_std - 0.5 * LOG_2PI).sum(-1)

    def entropy(self) -> jax.Array:
        """Differential entropy, shape (...,)."""
        each = self.log_std + 0.5 * (1 + LOG_2PI)
        return jnp.broadcast_to(each, self.mean.shape).sum(-1)


def kl(p: Gaussian, q: Gaussian) -> jax.Array:
    """KL(p ‖ q) of each action dimension, shape (..., actions)."""
    ratio = jnp.exp(2 * (p.log_std - q.log_std))
    shift = (p.mean - q.mean) * jnp.exp(-q.log_std)
    return 0.5 * (ratio + shift**2 - 1) + q.log_std - p.log_std


@dataclass(frozen=True)
class Policy:
    """A Gaussian policy: its mean is a network of the state, its spread a parameter.

    Attributes:
        mean: the network.
    """

    mean: Mlp

    @property
    def actions(self) -> int:
        """Number of action dimensions."""
        return self.mean.sizes[-1]

    def init(self, key: jax.Array) -> jax.Array:
        """Draw parameters θ: the network's, then log σ = 0 for each action dimension."""
        return jnp.concatenate([self.mean.init(key), jnp.zeros(self.actions)])

    def split(self, theta: jax.Array) -> Parts:
        """Return the network's weights and biases, and log σ."""
        return (*self.mean.split(theta), theta[-self.actions :])

    def apply(self, theta: jax.Array | Parts, x: jax.Array) -> Gaussian:
        """Return π_θ(· | x); θ is flat, or split already."""
        *net, log_std = theta if isinstance(theta, tuple) else self.split(theta)
        return Gaussian(self.mean.apply(tuple(net), x), log_std)


@dataclass(frozen=True)
class Squashed:
    """A deterministic policy: the tanh of a network.

    Attributes:
        net: the network.
    """

    net: Mlp

    @property
    def actions(self) -> int:
        """Number of action dimensions."""
        return self.net.sizes[-1]

    def init(self, key: jax.Array) -> jax.Array:
        """Draw parameters."""
        return self.net.init(key)

    def split(self, theta: jax.Array) -> Parts:
        """Return weights and biases."""
        return self.net.split(theta)

    def apply(self, theta: jax.Array | Parts, x: jax.Array) -> jax.Array:
        """Return actions in (−1, 1); θ is flat, or split already."""
        return jnp.tanh(self.net.apply(theta, x))


@dataclass(frozen=True)
class Critic:
    """A value of states, or of states and actions put together."""

    net: Mlp

    def init(self, key: jax.Array) -> jax.Array:
        """Draw parameters."""
        return self.net.init(key)

    def split(self, theta: jax.Array) -> Parts:
        """Return weights and biases."""
        return self.net.split(theta)

    def apply(self, theta: jax.Array | Parts, x: jax.Array) -> jax.Array:
        """Return values, shape (...,); θ is flat, or split already."""
        return self.net.apply(theta, x)[..., 0]


@dataclass(frozen=True)
class Networks:
    """The shapes of everything a run trains: one policy, and critics that share a shape.

    Attributes:
        policy: π(a | s).
        critic: V_R(s) and V_C(s).
        cost_q: Q_C(s, a).
    """

    policy: Policy
    critic: Critic
    cost_q: Critic


def make_networks(inputs: int, actions: int, hidden: tuple[int, ...] = (64, 64)) -> Networks:
    """Return the networks for observations and actions of these sizes."""
    return Networks(
        policy=Policy(Mlp((inputs, *hidden, actions))),
        critic=Critic(Mlp((inputs, *hidden, 1))),
        cost_q=Critic(Mlp((inputs + actions, *hidden, 1))),
    )


def gradient_of(
    net: Mlp | Policy | Squashed | Critic, loss: Callable[..., jax.Array]
) -> Callable[..., jax.Array]:
    """Return (θ, ...) ↦ ∇ loss(θ, ...) for a loss that only hands its θ to `net.apply`.

    The derivative of a slice is a vector of zeros with the slice in it, and adding those up takes
    a quarter of a minibatch's time. So θ is split before it is differentiated, and the gradients
    of the parts are joined.
    """
    of_parts = jax.grad(loss)

    def gradient(theta: jax.Array, *rest: Any) -> jax.Array:
        return jnp.concatenate([part.ravel() for part in of_parts(net.split(theta), *rest)])

    return gradient
