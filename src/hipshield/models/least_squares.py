"""Bayesian least squares in the coefficients of a basis: what identification rests on.

A change is r = y − g_0(x, a) ≈ Σ b_i g_i(x, a). With weights w (one an output, the inverse of its
noise) and a prior b ~ N(0, I), the best b after n transitions solves

    (I + Σ_t G_t W G_tᵀ) b = Σ_t G_t W r_t,        G_t = basis at transition t, shape (k, outputs)

so a step adds one small matrix, and costs the same after ten thousand transitions as after one.
The identity is the ridge towards the training mean, which is 0 here because function encoders
whiten their bases. It also keeps the system positive definite whatever the robot does.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Moments(NamedTuple):
    """What is known of a robot: Σ G W Gᵀ, shape (k, k), and Σ G W r, shape (k,)."""

    gram: Any
    moment: Any


def nothing(k: int) -> Moments:
    """Return what is known before the first transition."""
    return Moments(jnp.zeros((k, k)), jnp.zeros(k))


def include(
    known: Moments, basis: Any, residual: Any, weight: Any, keep: float | Any = 1.0
) -> Moments:
    """Take in one transition.

    Args:
        known: so far.
        basis: g_i(x, a), shape (k, outputs).
        residual: y − g_0(x, a), shape (outputs,).
        weight: w, shape (outputs,).
        keep: share of the past that is kept; below 1 for physics that change in an episode.
    """
    weighted = basis * weight
    gram = keep * known.gram + weighted @ basis.T
    moment = keep * known.moment + weighted @ residual
    fine = jnp.isfinite(gram).all() & jnp.isfinite(moment).all()
    # A transition that is not finite teaches nothing, and must not spoil what is known.
    return jax.tree.map(lambda new, old: jnp.where(fine, new, old), Moments(gram, moment), known)


def solve(known: Moments, ridge: float | Any = 1.0) -> jax.Array:
    """Return b, shape (k,): the solution of (ridge · I + gram) b = moment."""
    k, dtype = known.moment.shape[-1], known.gram.dtype
    # A robot that repeats one transition for ever makes the Gram matrix so large that the prior
    # vanishes in its rounding: what was never shown must stay at the prior all the same.
    least = 4 * jnp.finfo(dtype).eps * jnp.trace(known.gram)
    return solve_positive(
        known.gram + jnp.maximum(ridge, least) * jnp.eye(k, dtype=dtype), known.moment
    )


def solve_positive(matrix: jax.Array, right: jax.Array) -> jax.Array:
    """Solve a small symmetric positive definite system by Cholesky's factorisation.

    Written out column by column: for a handful of coefficients, mapped over a batch of robots,
    the compiler fuses that into a few vector operations, where a call of LAPACK for each robot
    takes several times as long. One step of refinement takes back what single precision lost.

    Args:
        matrix: shape (k, k).
        right: shape (k,).
    """
    k = matrix.shape[-1]
    diagonal = jnp.diagonal(matrix)
    # Scaled to a unit diagonal: the factorisation of a badly scaled Gram matrix stays accurate.
    scale = jax.lax.rsqrt(jnp.maximum(diagonal, 1e-30))
    unit = matrix * scale[:, None] * scale[None, :]
    columns: list[jax.Array] = []
    for j in range(k):
        column = unit[:, j]
        for earlier in columns:
            column = column - earlier * earlier[j]
        # Of a singular matrix a pivot may come out zero or negative: it must not divide.
        pivot = jnp.maximum(column[j], 1e-6)
        below = jnp.where(jnp.arange(k) > j, column, 0.0).at[j].set(pivot)
        columns.append(below * jax.lax.rsqrt(pivot))
    lower = jnp.stack(columns, 1)

    def back_and_forth(b: jax.Array) -> jax.Array:
        forward: list[jax.Array] = []
        for i in range(k):
            known = sum((lower[i, j] * forward[j] for j in range(i)), jnp.zeros((), b.dtype))
            forward.append((b[i] - known) / lower[i, i])
        back: list[jax.Array] = [forward[-1]] * k
        for i in reversed(range(k)):
            known = sum((lower[j, i] * back[j] for j in range(i + 1, k)), jnp.zeros((), b.dtype))
            back[i] = (forward[i] - known) / lower[i, i]
        return jnp.stack(back)

    target = right * scale
    x = back_and_forth(target)
    x = x + back_and_forth(target - unit @ x)
    return x * scale
