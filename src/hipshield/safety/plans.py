"""Plans: what a robot could do during the next H steps, and where that would lead it.

A candidate is some first actions, followed by a *continuation*: `hold`, the paper's, does the last
of them on; `brake` feeds the predicted velocities back,

    a = clip(−K v),    K = κ (Jᵀ W J + ρ I)⁻¹ Jᵀ W,    J = ∂(change of v)/∂a

with J from the model itself, so it needs to know nothing of the robot: for κ = 1 it is the action
that, unbounded, would leave the least of v after one step. W makes velocities comparable.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hipshield.models.least_squares import solve_positive
from hipshield.models.motion import Motion

SOURCES = ("samples", "library", "previous")  # of candidates
CONTINUATIONS = ("hold", "brake")
_RIDGE = 1e-3  # ρ, in units of the mean square of J: actions that move nothing stay small
_MOST_CORNERS = 3  # action values up to which a library has all corners of the action box

Model = Callable[[Any, Any], jax.Array]  # (x, a) -> y


class Proposals(NamedTuple):
    """Candidates before they are predicted.

    Attributes:
        actions: shape (candidates, horizon, actions).
        held: number of steps that these are done for; then comes the continuation,
            shape (candidates,).
    """

    actions: Any
    held: Any


class Forecast(NamedTuple):
    """Candidates as predicted.

    Attributes:
        e: safety features after each step, shape (candidates, horizon, features).
        actions: done before each step, shape (candidates, horizon, actions).
    """

    e: Any
    actions: Any


# Proposals


def held_actions(actions: Any, horizon: int, steps: int) -> Proposals:
    """Return each of some actions, shape (count, actions), held for some steps."""
    count, size = actions.shape
    repeated = jnp.broadcast_to(actions[:, None], (count, horizon, size))
    return Proposals(repeated, jnp.full(count, steps))


def manoeuvres(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return actions worth trying anywhere, shape (count, actions).

    They are the middle of the action box, the middle of each of its faces, and for up to three
    action values its corners.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    size = len(low)
    signs = [np.zeros(size), *np.eye(size), *-np.eye(size)]
    if 1 < size <= _MOST_CORNERS:
        signs += [np.array(corner) for corner in product((-1.0, 1.0), repeat=size)]
    return middle + half * np.array(signs)


def library(low: np.ndarray, high: np.ndarray, horizon: int, durations: Any) -> Proposals:
    """Return all manoeuvres, each held for each of some numbers of steps."""
    tried = jnp.asarray(manoeuvres(low, high), jnp.float32)
    return joined([held_actions(tried, horizon, min(d, horizon)) for d in durations])


def next_of(plan: Any) -> Any:
    """Return the rest of a plan after its first step, its last action twice."""
    return jnp.concatenate([plan[1:], plan[-1:]])


def joined(parts: list[Proposals]) -> Proposals:
    """Return all candidates of some proposals, in order."""
    return Proposals(*map(jnp.concatenate, zip(*parts, strict=True)))


# Prediction


def brake_gain(motion: Motion, model: Model, z: Any, middle: Any, spread: Any) -> Any:
    """Return K of the continuation `brake` for κ = 1 at one state, shape (actions, now).

    Args:
        motion: of the robot.
        model: (x, a) -> y.
        z: the present state, shape (size,).
        middle: of the action bounds, where J is taken, shape (actions,).
        spread: of each velocity, shape (now,).
    """

    def velocities(a: Any) -> Any:
        return motion.parts(motion.move(z, a, model(motion.x(z), a)))[1]

    jacobian = jax.jacfwd(velocities)(middle)
    weighted = (jacobian / spread[:, None] ** 2).T
    square = weighted @ jacobian
    ridge = _RIDGE * jnp.trace(square) / len(square) + 1e-12
    square = square + ridge * jnp.eye(len(square))
    return jax.vmap(solve_positive, (None, 1), 1)(square, weighted)


def brake(motion: Motion, gain: Any, low: np.ndarray, high: np.ndarray) -> Callable[[Any], Any]:
    """Return the continuation `brake`: states, shape (..., size), to actions."""
    middle = (low + high) / 2
    return lambda z: jnp.clip(middle - motion.parts(z)[1] @ gain.T, low, high)


def rollout(
    motion: Motion,
    model: Model,
    z: Any,
    proposals: Proposals,
    continuation: Callable[[Any], Any] | None,
) -> Forecast:
    """Predict all candidates together, step by step.

    Args:
        motion: of the robot.
        model: (x, a) -> y.
        z: the present state, shape (size,).
        proposals: the candidates.
        continuation: states to actions, for the steps after those that are held; None for
            proposals that are held for the whole horizon.
    """
    count, horizon, _ = proposals.actions.shape

    def go(z: Any, step: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        action, held = step
        if continuation is not None:
            action = jnp.where(held[:, None], action, continuation(z))
        z = motion.move(z, action, model(motion.x(z), action))
        return z, (motion.e(z), action)

    start = jnp.broadcast_to(z, (count, len(z)))
    held = jnp.arange(horizon)[:, None] < proposals.held
    steps = (jnp.swapaxes(proposals.actions, 0, 1), held)
    _, (e, actions) = jax.lax.scan(go, start, steps)
    return Forecast(jnp.swapaxes(e, 0, 1), jnp.swapaxes(actions, 0, 1))
