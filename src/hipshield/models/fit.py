"""Fitting: one loop for every predictor.

Each iteration draws some episodes and some of their transitions (`Predictor.loss` splits them as
it needs). Adam's rate falls along a cosine to zero; every few iterations the loss on episodes that
are not fitted to decides which parameters are kept, and whether it is worth going on.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hipshield.errors import HipshieldError
from hipshield.models.predictor import Predictor, Rows, Scale

trace_counts: Counter[str] = Counter()  # kind of predictor -> compilations of its fitting step
_TINY = 1e-8
_FINISH_STEPS = 1000  # of an episode that priors are taken from, at most


@dataclass(frozen=True)
class FitSettings:
    """How a predictor is fitted.

    Attributes:
        iterations: at the most.
        episodes, steps: of a minibatch: transitions are episodes × steps.
        rate: Adam's, at the start.
        held_out: share of the episodes that are kept for validation.
        every: iterations between validations.
        patience: validations without a new best after which fitting stops.
        seed: of parameters and minibatches.
    """

    iterations: int = 6000
    episodes: int = 32
    steps: int = 150
    rate: float = 3e-3
    held_out: float = 0.1
    every: int = 200
    patience: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        whole = (self.iterations, self.episodes, self.steps, self.every, self.patience)
        if min(whole) < 1 or not self.rate > 0 or not 0 < self.held_out < 1:
            raise HipshieldError(
                "Fitting needs iterations, episodes, steps, every and patience ≥ 1, rate > 0 and"
                " held_out between 0 and 1."
            )


class Progress(NamedTuple):
    """One validation: iterations so far, and the losses of fitting and of validation."""

    iteration: int
    fitting: float
    validation: float


def measure_scale(rows: Rows) -> Scale:
    """Return means and spreads of a data set, in double precision."""

    def moments(values: Any) -> tuple[Any, Any]:
        flat = np.asarray(values).reshape(-1, values.shape[-1])
        mean, spread = flat.mean(0, dtype=np.float64), flat.std(0, dtype=np.float64)
        # What never changes carries nothing: it becomes zero, not noise.
        spread = np.where(spread > _TINY, spread, 1.0)
        return jnp.asarray(mean, jnp.float32), jnp.asarray(spread, jnp.float32)

    return Scale(*moments(rows.x), *moments(rows.y), *moments(rows.phi))


def draw(rows: Rows, key: jax.Array, episodes: int, steps: int) -> Rows:
    """Return transitions of random episodes; an episode's are drawn without order."""
    which, when = jax.random.split(key)
    count, length = rows.x.shape[:2]
    e = jax.random.randint(which, (episodes, 1), 0, count)
    t = jax.random.randint(when, (episodes, steps), 0, length)
    return Rows(rows.x[e, t], rows.action[e, t], rows.y[e, t], rows.phi[e[:, 0]])


def held_out(episodes: int, settings: FitSettings) -> int:
    """Return how many episodes, the last ones, are kept for validation."""
    return max(1, round(episodes * settings.held_out))


def _optimiser(settings: FitSettings) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(settings.rate, settings.iterations))


@partial(jax.jit, static_argnums=(0, 1))
def _train(
    predictor: Predictor, settings: FitSettings, carry: Any, rows: Rows, key: jax.Array
) -> tuple[Any, jax.Array]:
    """Run `every` iterations; return the new carry and their mean loss."""
    trace_counts[predictor.kind] += 1
    adam = _optimiser(settings)

    def go(carry: Any, i: jax.Array) -> tuple[Any, jax.Array]:
        params, opt = carry
        pick, noise = jax.random.split(jax.random.fold_in(key, i))
        part = draw(rows, pick, settings.episodes, settings.steps)

        def loss(theta: Any) -> jax.Array:
            return predictor.loss(params._replace(theta=theta), part, noise)

        value, gradient = jax.value_and_grad(loss)(params.theta)
        update, opt = adam.update(gradient, opt)
        theta = jax.tree.map(jnp.add, params.theta, update)
        return (params._replace(theta=theta), opt), value

    carry, losses = jax.lax.scan(go, carry, jnp.arange(settings.every))
    return carry, losses.mean()


@partial(jax.jit, static_argnums=0)
def _validate(predictor: Predictor, params: Any, batches: Rows) -> jax.Array:
    """Return the mean loss over fixed batches."""
    key = jax.random.key(0)
    return jax.lax.map(lambda rows: predictor.loss(params, rows, key), batches).mean()


def fit(
    predictor: Predictor,
    rows: Rows,
    settings: FitSettings,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Any:
    """Fit a predictor to episodes; return its parameters.

    Args:
        predictor: what to fit.
        rows: episodes of equal length.
        settings: how.
        show: called after each validation.

    Raises:
        HipshieldError: there are too few episodes, or the loss is not finite.
    """
    count = len(rows.x)
    held = held_out(count, settings)
    if count - held < 1:
        raise HipshieldError(f"Fitting needs at least two episodes, got {count}.")
    key = jax.random.key(settings.seed)
    start, check, noise = jax.random.split(key, 3)
    rows = jax.tree.map(jnp.asarray, rows)
    mine = jax.tree.map(lambda v: v[:-held], rows)
    params = jax.jit(predictor.init)(start, measure_scale(mine))
    theirs = jax.tree.map(lambda v: v[-held:], rows)
    batches = jax.vmap(lambda k: draw(theirs, k, settings.episodes, settings.steps))(
        jax.random.split(check, 8)
    )
    carry: Any = (params, _optimiser(settings).init(params.theta))
    best, best_loss, waited = params, np.inf, 0
    for done in range(0, settings.iterations, settings.every):
        carry, fitting = _train(predictor, settings, carry, mine, jax.random.fold_in(noise, done))
        loss = float(_validate(predictor, carry[0], batches))
        if not np.isfinite(loss):
            raise HipshieldError(
                f"Fitting a {predictor.kind} diverged after {done + settings.every} iterations."
                " Check the data for outliers, or lower the rate."
            )
        show(Progress(done + settings.every, float(fitting), loss))
        best, best_loss, waited = (
            (carry[0], loss, 0) if loss < best_loss else (best, best_loss, waited + 1)
        )
        if waited >= settings.patience:
            break
    return predictor.finish(best, jax.tree.map(lambda v: v[:, :_FINISH_STEPS], mine))
