"""How good a predictor is: open-loop errors of the feature e(s), and how fast it adapts.

A predictor follows recorded episodes as it would online. Every `stride` steps it predicts from
what it believes then, with the actions that were really taken and without another look: the error
h steps later is ‖e(ẑ) − e(z)‖, in the motion's unit.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hipshield.errors import HipshieldError
from hipshield.models.episodes import States
from hipshield.models.predictor import Predictor

WARM_UP = 100  # transitions that a predictor gets before its errors count


class Errors(NamedTuple):
    """Errors of one predictor on some episodes.

    Attributes:
        leads: h, in steps.
        each: error at each start and lead, shape (episodes, starts, leads).
    """

    leads: tuple[int, ...]
    each: np.ndarray

    def mean(self) -> dict[int, float]:
        """Return the mean error by lead."""
        means = self.each.mean((0, 1))
        return dict(zip(self.leads, means.tolist(), strict=True))

    def quantile(self, level: float) -> dict[int, float]:
        """Return a quantile of the error by lead: 0.98 for what one step in fifty exceeds."""
        levels = np.quantile(self.each, level, axis=(0, 1))
        return dict(zip(self.leads, np.atleast_1d(levels).tolist(), strict=True))


def roll(predictor: Predictor, params: Any, b: Any, z: Any, actions: Any) -> Any:
    """Return the states that actions lead to as b predicts them, shape (steps, size)."""
    motion = predictor.motion

    def step(z: Any, action: Any) -> tuple[Any, Any]:
        z = motion.move(z, action, predictor.predict(params, b, motion.x(z), action))
        return z, z

    return jax.lax.scan(step, z, actions)[1]


@partial(jax.jit, static_argnums=(0, 3))
def contexts(predictor: Predictor, params: Any, states: States, stride: int) -> Any:
    """Return b as it is believed every `stride` steps, shape (episodes, T // stride, context)."""
    motion, count = predictor.motion, states.action.shape[1] // stride

    def one(z: Any, action: Any, phi: Any) -> Any:
        rows = (motion.x(z[:-1]), action, motion.truth(z[:-1], z[1:]))
        parts = jax.tree.map(
            lambda v: v[: count * stride].reshape(count, stride, *v.shape[1:]), rows
        )

        def learn(belief: Any, row: Any) -> tuple[Any, None]:
            return predictor.learn(params, belief, *row), None

        def segment(belief: Any, part: Any) -> tuple[Any, Any]:
            b = predictor.adapt(params, belief)
            return jax.lax.scan(learn, belief, part)[0], b

        return jax.lax.scan(segment, predictor.start(params, phi), parts)[1]

    return jax.vmap(one)(*states)


@partial(jax.jit, static_argnums=(0, 5))
def _errors_from(
    predictor: Predictor, params: Any, b: Any, states: States, starts: Any, leads: tuple[int, ...]
) -> Any:
    """Return errors from given starts, b of shape (episodes, starts, context)."""
    motion, pick = predictor.motion, np.asarray(leads) - 1

    def one(b: Any, z: Any, action: Any, start: Any) -> Any:
        acts = jax.lax.dynamic_slice_in_dim(action, start, leads[-1])
        expected = motion.e(roll(predictor, params, b, z[start], acts)[pick])
        really = motion.e(jax.lax.dynamic_slice_in_dim(z, start + 1, leads[-1])[pick])
        return jnp.sqrt(((expected - really) ** 2).sum(-1))

    def episode(row: Any) -> Any:
        b, z, action = row
        return jax.vmap(lambda b, s: one(b, z, action, s))(b, starts)

    return jax.lax.map(episode, (b, states.z, states.action))


def measure_errors(
    predictor: Predictor,
    params: Any,
    states: States,
    leads: Sequence[int] = (1, 20),
    stride: int = 25,
) -> Errors:
    """Return the errors that a predictor makes while it follows episodes.

    Args:
        predictor: the model's sizes.
        params: what it learned.
        states: episodes of equal length, none of which it was fitted to.
        leads: steps ahead, rising.
        stride: steps between the starts.
    """
    leads = _checked(leads)
    steps = states.action.shape[1]
    starts = np.arange(0, steps // stride) * stride
    good = (starts >= min(WARM_UP, steps // 2)) & (starts + leads[-1] <= steps)
    if not good.any():
        raise HipshieldError(
            f"Episodes of {steps} steps are too short for errors {leads[-1]} steps ahead."
        )
    b = contexts(predictor, params, states, stride)[:, good]
    each = _errors_from(predictor, params, b, states, jnp.asarray(starts[good]), leads)
    return Errors(leads, np.asarray(each))


@partial(jax.jit, static_argnums=(0, 3))
def next_state_error(predictor: Predictor, params: Any, states: States, stride: int = 25) -> Any:
    """Return the mean l1 error of the next state, Σ|ẑ − z| over pose and what moves.

    That is the paper's measure of a predictor (its appendix on alternative predictors), after the
    warm-up, in the state's own units.
    """
    motion = predictor.motion
    first = min(WARM_UP, states.action.shape[1] // 2) // stride
    b = contexts(predictor, params, states, stride)[:, first:]
    starts = (first + jnp.arange(b.shape[1])) * stride

    def one(b: Any, z: Any, action: Any, after: Any) -> Any:
        y = predictor.predict(params, b, motion.x(z), action)
        return sum(
            jnp.abs(guess - truth).sum()
            for guess, truth in zip(
                motion.parts(motion.move(z, action, y)), motion.parts(after), strict=True
            )
        )

    every = jax.vmap(jax.vmap(one))
    z, action, _ = states
    return every(b, z[:, starts], action[:, starts], z[:, starts + 1]).mean()


def measure_adapting(
    predictor: Predictor,
    params: Any,
    states: States,
    after: Sequence[int] = (0, 1, 3, 10, 30, 100),
    leads: Sequence[int] = (1, 20),
) -> dict[int | str, dict[int, float]]:
    """Return mean errors by number of transitions that b was taken from, and in hindsight.

    All are errors of the same predictions, in the second half of the episodes; b in hindsight
    comes from the whole episode.

    Returns:
        {transitions or 'hindsight': {lead: error}}.
    """
    leads = _checked(leads)
    steps = states.action.shape[1]
    if max(after) > steps // 2 or steps // 2 + leads[-1] > steps:
        raise HipshieldError(f"Episodes of {steps} steps are too short to measure adapting.")
    starts = jnp.arange(steps // 2, steps - leads[-1] + 1, 25)
    curve: dict[int | str, dict[int, float]] = {}
    counts: dict[int | str, int] = {**{n: n for n in after}, "hindsight": steps}
    for n, count in counts.items():
        b = _context_after(predictor, params, states, count)
        b = jnp.broadcast_to(b[:, None], (len(b), len(starts), b.shape[-1]))
        each = _errors_from(predictor, params, b, states, starts, leads)
        curve[n] = Errors(leads, np.asarray(each)).mean()
    return curve


@partial(jax.jit, static_argnums=0)
def _context_after(predictor: Predictor, params: Any, states: States, count: Any) -> Any:
    """Return b after the first `count` transitions of each episode, shape (episodes, context)."""
    motion = predictor.motion

    def one(z: Any, action: Any, phi: Any) -> Any:
        def learn(t: Any, belief: Any) -> Any:
            y = motion.truth(z[t], z[t + 1])
            return predictor.learn(params, belief, motion.x(z[t]), action[t], y)

        belief = jax.lax.fori_loop(0, count, learn, predictor.start(params, phi))
        return predictor.adapt(params, belief)

    return jax.vmap(one)(*states)


def final_contexts(predictor: Predictor, params: Any, states: States) -> np.ndarray:
    """Return b after whole episodes, shape (episodes, context)."""
    return np.asarray(_context_after(predictor, params, states, states.action.shape[1]))


def readout(b: np.ndarray, phi: np.ndarray, new_b: np.ndarray, new_phi: np.ndarray) -> np.ndarray:
    """Return R² of a linear readout of each hidden parameter from b.

    Args:
        b: to fit the readout on, shape (episodes, context).
        phi: likewise, shape (episodes, parameters).
        new_b: to judge it on.
        new_phi: likewise.
    """

    def inputs(b: np.ndarray) -> np.ndarray:
        return np.column_stack([b, np.ones(len(b))])

    weights, *_ = np.linalg.lstsq(inputs(b), phi, rcond=None)
    left = ((inputs(new_b) @ weights - new_phi) ** 2).mean(0)
    return 1 - left / np.maximum(new_phi.var(0), 1e-12)


def _checked(leads: Sequence[int]) -> tuple[int, ...]:
    leads = tuple(leads)
    if not leads or leads[0] < 1 or list(leads) != sorted(set(leads)):
        raise HipshieldError(f"Leads must be rising numbers of steps, at least 1; got {leads}.")
    return leads
