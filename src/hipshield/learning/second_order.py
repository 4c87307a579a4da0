"""Second-order pieces on flat vectors: Fisher products, conjugate gradients, line search."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hipshield.learning.networks import Policy

Product = Callable[[jax.Array], jax.Array]


def fisher_product(policy: Policy, theta: jax.Array, x: jax.Array, damping: float) -> Product:
    """Return v ↦ (F + damping · I) v, F the Hessian of the mean KL at θ.

    The KL is averaged over states *and action dimensions*, as in the implementation whose
    defaults we use; with two actions that makes a step of KL 0.01 one of 0.02 in total. For a
    Gaussian, F = Jᵀ diag(1/σ²) J of the mean's Jacobian J, plus 2 for each log σ: two products
    with a linearised network instead of a second derivative.
    """
    m = policy.actions
    rows = x.shape[0] * m
    net, log_std = theta[:-m], theta[-m:]
    precision = jnp.exp(-2 * log_std)
    _, forward = jax.linearize(lambda t: policy.mean.apply(t, x), net)
    backward = jax.linear_transpose(forward, net)

    def product(v: jax.Array) -> jax.Array:
        (curved,) = backward(forward(v[:-m]) * precision / rows)
        return jnp.concatenate([curved, 2 * v[-m:] / m]) + damping * v

    return product


def conjugate_gradient(
    product: Product, b: jax.Array, steps: int, enough: float = 1e-10
) -> jax.Array:
    """Solve product(x) = b for a symmetric positive definite product; stop when r·r is tiny."""

    def go(_: int, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        x, r, p, rr = state
        ap = product(p)
        alpha = rr / (p @ ap + 1e-20)
        moved, left = x + alpha * p, r - alpha * ap
        fresh = left @ left
        along = left + fresh / (rr + 1e-20) * p
        done = rr < enough
        new = (moved, left, along, fresh)
        return tuple(jnp.where(done, old, n) for old, n in zip(state, new, strict=True))

    x, *_ = jax.lax.fori_loop(0, steps, go, (jnp.zeros_like(b), b, b, b @ b))
    return x


class Accepted(NamedTuple):
    """What a line search settled on: the point, its fraction of the step, and its number."""

    theta: jax.Array
    fraction: jax.Array
    trial: jax.Array


def line_search(
    theta: jax.Array,
    step: jax.Array,
    good: Callable[[jax.Array], jax.Array],
    trials: int = 15,
    decay: float = 0.8,
) -> Accepted:
    """Shorten a step until it is good; after `trials` failures, do not move.

    Args:
        theta: where from.
        step: the full step.
        good: tells whether a point is acceptable.
        trials: how often at the most.
        decay: factor of each shortening.
    """

    def unhappy(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        trial, happy = state
        return ~happy & (trial < trials)

    def attempt(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        trial, _ = state
        return trial + 1, good(theta + decay**trial * step)

    trial, happy = jax.lax.while_loop(unhappy, attempt, (jnp.zeros((), int), jnp.zeros((), bool)))
    fraction = jnp.where(happy, decay ** (trial - 1.0), 0.0)
    # Exactly θ when nothing is good, also if the step is not finite.
    there = jnp.where(happy, theta + fraction * step, theta)
    return Accepted(there, fraction, jnp.where(happy, trial, 0))
