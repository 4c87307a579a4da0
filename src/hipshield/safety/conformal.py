"""Adaptive conformal calibration: how wrong a prediction may be, learned from how wrong it was.

A *score* is the error of a prediction whose truth is known by now. The radius Γ is an order
statistic of the last n ≤ W scores,

    Γ = the r-th smallest,    r = ⌈(n + 1)(1 − λ)⌉ = n + 1 − ⌊(n + 1) λ⌋

(∞ when r > n: so few scores cannot promise that much; 0 when λ ≥ 1: nothing has to be covered),
and its working level λ answers each miss (Adaptive Conformal Inference, Gibbs & Candès 2021):

    λ ← λ + γ (δ − 1{score > Γ}),    λ₁ = δ

so whatever the scores do, even when somebody chooses them who knows Γ, the share of misses of T
steps is within (max(λ₁, 1 − λ₁) + γ) / (γT) of δ. That is arithmetic, not statistics: λ cannot
leave [−γ, 1 + γ], because at λ ≤ 0 nothing misses, and at λ ≥ 1 everything does.

Three rules share this code, for they differ only in the rates γ that they follow at once: `aci` in
one, `window` in none (λ stays δ), and `dtaci` in eight, weighted by how well each did (DtACI,
Gibbs & Candès 2024, Algorithm 1; the published rates, mixing σ and learning rate η).

Ranks are exact: λ is an integer, in units so small that δ, γ and γδ are integers too. In single
precision (n + 1) λ would fall on the wrong side of an integer now and then, and λ would drift.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import lcm, log, sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hipshield.errors import HipshieldError, did_you_mean

RULES = ("aci", "window", "dtaci")
_DTACI_RATES = tuple(Fraction(2**i, 1000) for i in range(8))  # 0.001, 0.002, …, 0.128
_DTACI_SPAN = 500  # steps over which DtACI shall be as good as the best of its rates


@dataclass(frozen=True)
class Conformal:
    """How radii are calibrated.

    Attributes:
        delta: δ, the share of predictions that may be worse than Γ.
        rate: γ of rule `aci`; 0.005 is Gibbs & Candès' own choice.
        window: W, scores that are remembered. 200 hold λ down to one rate (1/201 < γ) before Γ
            becomes infinite, and forget what came before the model knew its robot.
        warm_up: scores that only collect: λ rests and misses are not counted.
        rule: `aci`, `window` or `dtaci`.
    """

    delta: float = 0.02
    rate: float = 0.005
    window: int = 200
    warm_up: int = 100
    rule: str = "aci"

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.rule not in RULES:
            raise HipshieldError(f"No rule '{self.rule}'.{did_you_mean(self.rule, RULES)}")
        if not (0 < self.delta < 1 and 0 < self.rate < 1):
            raise HipshieldError("Calibration needs delta and rate between 0 and 1.")
        if self.window < 1 or self.warm_up < 0:
            raise HipshieldError("Calibration needs window ≥ 1 and warm_up ≥ 0.")
        if 2 * (self.window + 1) * self.units >= 2**31:
            raise HipshieldError(
                f"Ranks cannot be exact with delta {self.delta}, rate {self.rate} and window"
                f" {self.window}: give delta and rate fewer digits, or a smaller window."
            )

    @property
    def rates(self) -> tuple[Fraction, ...]:
        """The γ that are followed at once."""
        return {
            "aci": (_exactly(self.rate),),
            "window": (Fraction(0),),
            "dtaci": _DTACI_RATES,
        }[self.rule]

    @property
    def units(self) -> int:
        """How many units make 1, of an integer λ: every step it takes is a whole number of them."""
        delta = _exactly(self.delta)
        return lcm(
            *((d * r).denominator for r in self.rates for d in (delta, 1)), delta.denominator
        )

    def in_units(self, value: Fraction) -> int:
        """Return a multiple of one unit as an integer."""
        return int(value * self.units)


class Calibration(NamedTuple):
    """What is known of one robot's errors at one lead time.

    Attributes:
        ordered: the last W scores in ascending order, infinite where there is none, shape (W,).
        arrived: the same scores in a ring, the next one's place being seen mod W, shape (W,).
        seen: scores so far, shape ().
        missed: those of them, after the warm-up, that were greater than Γ, shape ().
        level: λ of each rate, in units, shape (rates,).
        weight: of each rate; they sum to 1, shape (rates,).
        prior: Γ during the warm-up, shape ().
        told: whether a prior was given, shape ().
    """

    ordered: Any
    arrived: Any
    seen: Any
    missed: Any
    level: Any
    weight: Any
    prior: Any
    told: Any


def begin(settings: Conformal, prior: Any = None) -> Calibration:
    """Start an episode.

    Args:
        settings: how to calibrate.
        prior: radius to use during the warm-up, shape (), infinity allowed; without one nothing
            is known then: Γ is infinite, and `calibrated` says no.
    """
    count, start = len(settings.rates), settings.in_units(_exactly(settings.delta))
    nothing = jnp.full(settings.window, jnp.inf, jnp.float32)
    return Calibration(
        ordered=nothing,
        arrived=nothing,
        seen=jnp.zeros((), jnp.int32),
        missed=jnp.zeros((), jnp.int32),
        level=jnp.full(count, start, jnp.int32),
        weight=jnp.full(count, 1 / count, jnp.float32),
        prior=jnp.asarray(jnp.inf if prior is None else prior, jnp.float32),
        told=jnp.asarray(prior is not None),
    )


def calibrated(settings: Conformal, state: Calibration) -> jax.Array:
    """Whether Γ says anything: the warm-up is over, or there was a prior."""
    return state.told | (state.seen >= settings.warm_up)


def radius(settings: Conformal, state: Calibration) -> jax.Array:
    """Return Γ, shape (); 0 and infinity are possible."""
    n = jnp.minimum(state.seen, settings.window)
    rank = _rank(settings, _working(state), n)
    inside = state.ordered[jnp.clip(rank - 1, 0, settings.window - 1)]
    gamma = jnp.where(rank > n, jnp.inf, jnp.where(rank > 0, inside, 0.0))
    return jnp.where(state.seen < settings.warm_up, state.prior, gamma)


def largest(state: Calibration) -> jax.Array:
    """Return the largest finite radius that is known of, shape (); 0 when none is.

    It stands in for an infinite Γ where plans, all of them unsafe then, still have to be ordered.
    """
    known = jnp.append(state.ordered, state.prior)
    return jnp.where(jnp.isfinite(known), known, 0.0).max()


def update(
    settings: Conformal, state: Calibration, score: Any, valid: Any = True
) -> tuple[Calibration, jax.Array]:
    """Take in the error of one prediction.

    Args:
        settings: how to calibrate.
        state: before.
        score: the error, shape (); what is not a number counts as infinite.
        valid: whether there was a prediction at all; if not, nothing changes.

    Returns:
        The new state, and whether the score missed, which during the warm-up none does.
    """
    score = jnp.where(jnp.isnan(score), jnp.inf, score)
    n = jnp.minimum(state.seen, settings.window)
    # The rank that Γ would have needed to cover the score. Unlike comparing with Γ itself, this
    # also counts a score of zero as missed at λ ≥ 1, which the guarantee rests on.
    place = 1 + (state.ordered < score).sum()
    counts = jnp.asarray(valid) & (state.seen >= settings.warm_up)
    missed = counts & (_rank(settings, _working(state), n) < place)
    leaving = jnp.where(
        state.seen < settings.window, jnp.inf, state.arrived[state.seen % settings.window]
    )
    here = jnp.arange(settings.window) == state.seen % settings.window
    after = state._replace(
        ordered=slide(state.ordered, leaving, score),
        arrived=jnp.where(here, score, state.arrived),
        seen=state.seen + 1,
    )
    state = jax.tree.map(lambda new, old: jnp.where(valid, new, old), after, state)
    level, weight = _learn(settings, state, n, place)
    return state._replace(
        missed=state.missed + missed,
        level=jnp.where(counts, level, state.level),
        weight=jnp.where(counts, weight, state.weight),
    ), missed


def slide(ordered: jax.Array, leaving: Any, entering: Any) -> jax.Array:
    """Return ascending values without one that leaves, and with one that enters.

    Two shifts and a few comparisons; sorting the window anew takes sixty times as long for 200
    robots, and does not vectorise.

    Args:
        ordered: shape (W,), infinite at the end where there are fewer values.
        leaving: one of the values; infinity removes a place that holds none.
        entering: any value.
    """
    end = jnp.full(1, jnp.inf, ordered.dtype)
    rest = jnp.where(ordered < leaving, ordered, jnp.concatenate([ordered[1:], end]))
    before = jnp.concatenate([-end, rest[:-1]])
    return jnp.minimum(jnp.maximum(entering, before), rest)


def _working(state: Calibration) -> jax.Array:
    """Return λ in units: the weighted mean of all rates' levels, shape ()."""
    if len(state.level) == 1:
        return state.level[0]
    return jnp.round((state.weight * state.level).sum()).astype(jnp.int32)


def _rank(settings: Conformal, level: Any, n: Any) -> Any:
    """Return r = ⌈(n + 1)(1 − λ)⌉, exactly."""
    return n + 1 - (n + 1) * level // settings.units


def _learn(settings: Conformal, state: Calibration, n: Any, place: Any) -> tuple[Any, Any]:
    """Return each rate's level and weight after a score that needed the rank `place` of n + 1.

    DtACI weighs rates by the pinball loss ℓ = δ (β − λ) − min(0, β − λ), where β is the largest
    level that would still have covered the score.
    """
    delta, rates = _exactly(settings.delta), settings.rates
    up = np.array([settings.in_units(r * delta) for r in rates], np.int32)
    down = np.array([settings.in_units(r) for r in rates], np.int32)
    missed = _rank(settings, state.level, n) < place
    level = state.level + up - jnp.where(missed, down, 0)
    if len(rates) == 1:
        return level, state.weight
    gap = 1 - (place - 1) / (n + 1) - state.level / settings.units
    loss = settings.delta * gap - jnp.minimum(gap, 0)
    sigma = 1 / (2 * _DTACI_SPAN)
    weight = state.weight * jnp.exp(-_eta(settings.delta) * loss)
    return level, (1 - sigma) * weight / weight.sum() + sigma / len(rates)


def _eta(delta: float) -> float:
    """Return DtACI's published learning rate of the weights: 2.72 for δ = 0.1."""
    count = len(_DTACI_RATES)
    spread = (delta * (1 - delta)) ** 2
    return sqrt(3 / _DTACI_SPAN * (log(2 * count * _DTACI_SPAN) + 1) / spread)


def _exactly(value: float) -> Fraction:
    """Return the number that a person wrote: 0.02 is 1/50, not the nearest binary fraction."""
    return Fraction(str(float(value)))
