"""The catalogue: predictors by name, all of about one size.

A comparison is about ideas only if nobody has more parameters. So whoever names no size gets that
of the default function encoder, and the paper's 270 000 to 280 000 is `PAPER_BUDGET`.
"""

from collections.abc import Callable

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.models.ensemble import Ensemble
from hipshield.models.function_encoder import FunctionEncoder
from hipshield.models.motion import Motion
from hipshield.models.perceptron import MlpPredictor
from hipshield.models.predictor import Predictor
from hipshield.models.transformer import Transformer

KINDS = ("function-encoder", "transformer", "ensemble", "mlp")
INFERRING = ("function-encoder", "transformer")  # the others are told φ, or nothing
PAPER_BUDGET = 275_000  # parameters of each of the paper's predictors

_CONTEXT = 3  # values in b, if nobody says
_HEADS = 2
_NEAR = 0.05  # share of its budget by which a predictor may miss it

Widths = tuple[int, int]  # of a network's two hidden layers


def make_predictor(
    kind: str,
    motion: Motion,
    *,
    phi: int = 0,
    context: int | None = None,
    budget: int | None = None,
) -> Predictor:
    """Return a predictor of a kind and a size. Other settings: `dataclasses.replace`.

    Args:
        kind: one of `KINDS`.
        motion: of the robot.
        phi: number of hidden parameters that it is told, which makes it an oracle; 0 for none.
        context: number of values in b, of kinds that infer it; default: 3.
        budget: number of parameters; default: that of the default function encoder.

    Raises:
        HipshieldError: there is no such kind, it cannot be an oracle or have a context, or it
            cannot be that small.
    """
    if kind not in KINDS:
        raise HipshieldError(f"Unknown predictor '{kind}'." + did_you_mean(kind, KINDS))
    if phi and kind in INFERRING:
        raise HipshieldError(
            f"A {kind} infers what an oracle is told."
            " Leave phi at 0, or choose one of: ensemble, mlp."
        )
    if context is not None and kind not in INFERRING:
        raise HipshieldError(
            f"The kind '{kind}' infers no context. Tell it φ, or choose one of:"
            f" {', '.join(INFERRING)}."
        )
    values = _CONTEXT if context is None else context
    if values < 1:
        raise HipshieldError(f"A {kind} needs at least one value in b, got context = {values}.")
    if budget is None:
        budget = FunctionEncoder(motion, bases=values).count
    if kind == "transformer":
        return _transformer(motion, values, budget)

    def build(widths: Widths) -> Predictor:
        if kind == "function-encoder":
            return FunctionEncoder(motion, bases=values, hidden=widths)
        if kind == "ensemble":
            return Ensemble(motion, phi=phi, hidden=widths)
        return MlpPredictor(motion, phi=phi, hidden=widths)

    return _nearest(build, budget)


def _transformer(motion: Motion, latent: int, budget: int) -> Predictor:
    """Return a transformer whose encoder has about half of the parameters."""

    def build(groups: int, widths: Widths) -> Transformer:
        return Transformer(
            motion, latent=latent, width=groups * _HEADS, heads=_HEADS, hidden=widths
        )

    groups = _largest(lambda n: build(n, (1, 1)).encoder.count <= budget / 2)
    return _nearest(lambda widths: build(groups, widths), budget)


def _nearest(build: Callable[[Widths], Predictor], budget: int) -> Predictor:
    """Return the predictor whose size is nearest, of those with layers of (almost) equal widths."""
    w = _largest(lambda n: build((n, n)).count <= budget)
    widths = ((w, w), (w, w + 1), (w + 1, w), (w + 1, w + 1))
    best = min(map(build, widths), key=lambda predictor: abs(predictor.count - budget))
    if abs(best.count - budget) > _NEAR * budget:
        raise HipshieldError(
            f"No {best.kind} of the {best.motion.name} has about {budget} parameters: the nearest"
            f" has {best.count}."
        )
    return best


def _largest(fits: Callable[[int], bool]) -> int:
    """Return the largest whole number that fits, at least 1; all below one that fits do too."""
    high = 2
    while fits(high):
        high *= 2
    low = 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
