"""Choices: which of the candidates is done. Each is a small function of the options.

A *choice* picks among the safe ones; a *fallback* picks when there are none. The paper's (Section
4.3, step 5) are `top-k` and `best-score`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Options(NamedTuple):
    """The candidates of one robot; row 0 is what the policy proposed.

    Attributes:
        first: first actions, in units of half the action box, shape (candidates, actions).
        believed: whose predictions can be, shape (candidates,). The others are never safe.
        score: least clearance over the horizon, shape (candidates,).
        safe: score > what is demanded, shape (candidates,).
        hope: the score with finite radii, for when infinite ones leave nothing to compare.
        violation: what is missing to be safe, summed over the horizon, with finite radii, too.
    """

    first: Any
    believed: Any
    score: Any
    safe: Any
    hope: Any
    violation: Any


Choice = Callable[[Options, int, jax.Array], jax.Array]  # (options, k, key) -> row


def top_k(options: Options, k: int, key: jax.Array) -> jax.Array:
    """Return one of the k best safe candidates, each as likely: U(Top_k(Â_safe))."""
    ranked = jnp.where(options.safe, options.score, -jnp.inf)
    k = min(k, len(ranked))
    _, best = jax.lax.top_k(ranked, k)
    # Never more than are safe; at least one, for this is also evaluated when none is.
    among = jnp.clip(options.safe.sum(), 1, k)
    return best[jax.random.randint(key, (), 0, among)]


def nearest(options: Options, k: int, key: jax.Array) -> jax.Array:
    """Return the safe candidate that begins most like the policy's: itself, if it is safe."""
    distance = ((options.first - options.first[0]) ** 2).sum(-1)
    return jnp.argmin(jnp.where(options.safe, distance, jnp.inf))


def own_or_best(options: Options, k: int, key: jax.Array) -> jax.Array:
    """Return the policy's own candidate if it is safe, else the best."""
    best = jnp.argmax(jnp.where(options.safe, options.score, -jnp.inf))
    return jnp.where(options.safe[0], 0, best)


def best_score(options: Options) -> jax.Array:
    """Return the candidate with the greatest score: argmax SafetyScore(a)."""
    return jnp.argmax(options.hope)


def least_violation(options: Options) -> jax.Array:
    """Return the candidate that is least, and least long, where it must not be."""
    return jnp.argmin(options.violation)


CHOICES: dict[str, Choice] = {"top-k": top_k, "nearest": nearest, "own-or-best": own_or_best}
FALLBACKS: dict[str, Callable[[Options], jax.Array]] = {
    "best-score": best_score,
    "least-violation": least_violation,
}
