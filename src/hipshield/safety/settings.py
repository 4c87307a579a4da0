"""The settings of a shield, and the two presets: the paper's, and one that plans."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.models.predictor import Predictor
from hipshield.safety.choices import CHOICES, FALLBACKS
from hipshield.safety.conformal import Conformal
from hipshield.safety.plans import CONTINUATIONS, SOURCES
from hipshield.worlds import margins

_HORIZON = 40  # steps in which this library's robots can stop from any speed


@dataclass(frozen=True)
class Shield:
    """Settings of a shield: proposals × horizon × continuation × choice. See `paper` and `plan`.

    Attributes:
        predictor: of the next states.
        horizon: H, steps that are predicted.
        leads: lead times that are calibrated, ascending, the last one H.
        sources: of candidates, out of `SOURCES`.
        continuation: of candidates, one of `CONTINUATIONS`.
        choice: of a safe candidate, a key of `CHOICES`.
        fallback: when none is safe, a key of `FALLBACKS`.
        low, high: bounds of actions, one for all or one for each.
        samples: N, actions that the policy proposes.
        hold: steps that a sample is held for, before the continuation `brake`.
        durations: steps that a manoeuvre of the library is held for, likewise.
        kappa: κ of braking.
        conformal: how radii are calibrated.
        trigger: Δ, the margin up to which candidates are checked at all; infinity: always.
        beyond: what a score has to exceed to be safe.
        doubt: how many L_ν Γ are taken off a margin: one for the robot, one for the scene.
        lipschitz: L_ν.
        margin: ν(e, scene), for any leading axes.
        leap: what e can change by in one step at most. A prediction beyond that has diverged;
            without a limit, a robot predicted to be far away would look safe.
        k: of choice `top-k`.
    """

    predictor: Predictor
    horizon: int
    leads: tuple[int, ...]
    sources: tuple[str, ...]
    continuation: str
    choice: str
    fallback: str
    low: float | tuple[float, ...] = -1.0
    high: float | tuple[float, ...] = 1.0
    samples: int = 10
    hold: int = 1
    durations: tuple[int, ...] = (1, 5, 20)
    kappa: float = 1.0
    conformal: Conformal = field(default_factory=Conformal)
    trigger: float = np.inf
    beyond: float = 0.0
    doubt: float = 2.0
    lipschitz: float = margins.LIPSCHITZ
    margin: Callable[[Any, Any], Any] = margins.margin
    leap: float = 5.0
    k: int = 2

    def __post_init__(self) -> None:
        """Check the numbers."""
        slots: list[tuple[str, Collection[str]]] = [
            (self.choice, CHOICES),
            (self.fallback, FALLBACKS),
            (self.continuation, CONTINUATIONS),
            *((source, SOURCES) for source in self.sources),
        ]
        for name, known in slots:
            if name not in known:
                raise HipshieldError(f"A shield knows no '{name}'.{did_you_mean(name, known)}")
        if "samples" not in self.sources:
            raise HipshieldError("A shield's candidates have to include the policy's 'samples'.")
        if min(self.horizon, self.samples, self.hold, self.k, *self.durations) < 1:
            raise HipshieldError("A shield needs horizon, samples, hold, k and durations ≥ 1.")
        leads = self.leads
        if leads != tuple(sorted(set(leads))) or leads[:1] < (1,) or leads[-1] != self.horizon:
            raise HipshieldError(
                f"Lead times ascend from 1 or more to the horizon {self.horizon}, not {leads}."
            )
        if min(self.doubt, self.lipschitz, self.trigger, self.kappa) < 0 or not self.leap > 0:
            raise HipshieldError(
                "A shield needs doubt, lipschitz, trigger and kappa ≥ 0, and leap > 0."
            )
        low, high = self.bounds
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise HipshieldError(f"Actions need finite bounds low < high, not {low} and {high}.")

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of actions, shape (actions,) each."""
        size = self.predictor.motion.actions
        if any(np.size(bound) not in (1, size) for bound in (self.low, self.high)):
            raise HipshieldError(f"Bounds are one for all actions, or one for each of {size}.")
        low, high = (np.asarray(bound, np.float32) for bound in (self.low, self.high))
        return np.broadcast_to(low, size), np.broadcast_to(high, size)


def paper(predictor: Predictor, horizon: int = 1, **changes: Any) -> Shield:
    """Return the paper's shield: samples, one step ahead, one of the best that are safe.

    Δ = 0.275 m from a hazard's centre is a margin of 0.075 m. The code the authors released
    differs: trigger 0.225, beyond 0.075, conformal rule `window`.
    """
    settings: dict[str, Any] = {
        "leads": tuple(range(1, horizon + 1)),
        "sources": ("samples",),
        "continuation": "hold",
        "choice": "top-k",
        "fallback": "best-score",
        "trigger": 0.075,
    }
    return Shield(predictor, horizon, **(settings | changes))


def plan(predictor: Predictor, horizon: int = _HORIZON, **changes: Any) -> Shield:
    """Return the shield that plans: an action is safe when the robot can still brake after it."""
    settings: dict[str, Any] = {
        "leads": spread_leads(horizon),
        "sources": SOURCES,
        "continuation": "brake",
        "choice": "nearest",
        "fallback": "least-violation",
    }
    return Shield(predictor, horizon, **(settings | changes))


def spread_leads(horizon: int) -> tuple[int, ...]:
    """Return Fibonacci's numbers up to a horizon, and the horizon: few leads, dense early on."""
    leads, following = [1], 2
    while following < horizon:
        leads, following = [*leads, following], leads[-1] + following
    return (*leads, horizon) if horizon > 1 else (1,)
