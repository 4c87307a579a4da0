"""Fitting critics: V_R and V_C together, and SRO's Q_C."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from hipshield.learning.minibatches import descend, one_pass
from hipshield.learning.networks import Critic, gradient_of
from hipshield.learning.state import COST, Samples, TrainState

DECAY = 0.001  # of the critics' parameters, added to the loss


@dataclass(frozen=True)
class CriticFit:
    """How critics are fitted: Adam's rate, rows of a minibatch, passes over the data."""

    rate: float = 1e-3
    batch: int = 128
    passes: Any = 10


def error_gradient(critic: Critic) -> Callable[..., jax.Array]:
    """Return (θ, x, target) ↦ ∇ of the mean squared error, plus a decay of the parameters."""

    def squared_error(theta: Any, x: jax.Array, target: jax.Array) -> jax.Array:
        return ((critic.apply(theta, x) - target) ** 2).mean()

    gradient = gradient_of(critic, squared_error)
    return lambda theta, x, target: gradient(theta, x, target) + 2 * DECAY * theta


def fit_values(
    fit: CriticFit, critic: Critic, state: TrainState, samples: Samples, key: jax.Array
) -> TrainState:
    """Fit V_R and V_C to their targets, both on the same minibatches.

    `fit.passes` may be an array that is known only when it runs.
    """
    gradient_of_one = error_gradient(critic)
    data = (samples.x, samples.targets.T)

    def step(carry: Any, part: Any) -> Any:
        (theta, opt), (x, target) = carry, part
        # One after the other: a batched matrix product takes longer than two plain ones.
        both = [gradient_of_one(t, x, y) for t, y in zip(theta, target.T, strict=True)]
        return jax.vmap(lambda t, o, g: descend(t, o, g, fit.rate))(theta, opt, jnp.stack(both))

    def sweep(i: jax.Array, carry: Any) -> Any:
        return one_pass(carry, jax.random.fold_in(key, i), data, fit.batch, step)

    carry = (state.critics, state.critics_opt)
    theta, opt = jax.lax.fori_loop(0, fit.passes, sweep, carry)
    return state._replace(critics=theta, critics_opt=opt)


def fit_cost_q(
    fit: CriticFit, critic: Critic, state: TrainState, samples: Samples, key: jax.Array
) -> TrainState:
    """Fit Q_C(s, a) to V_C(s) + A_C(s, a), which is V_C's own target (paper, Algorithm 1)."""
    data = (jnp.concatenate([samples.x, samples.action], axis=1), samples.targets[COST])
    gradient = error_gradient(critic)

    def step(carry: Any, part: Any) -> Any:
        theta, opt = carry
        return descend(theta, opt, gradient(theta, *part), fit.rate)

    def sweep(i: jax.Array, carry: Any) -> Any:
        return one_pass(carry, jax.random.fold_in(key, i), data, fit.batch, step)

    theta, opt = jax.lax.fori_loop(0, fit.passes, sweep, (state.cost_q, state.cost_q_opt))
    return state._replace(cost_q=theta, cost_q_opt=opt)
