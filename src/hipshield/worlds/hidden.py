"""Hidden parameters φ: what changes from episode to episode, and how it is drawn.

φ is a vector of multipliers on a compiled model, one per `Parameter` of a task. A *split* says
from which ranges they are drawn at a reset:

* `train`: the distribution that policies and models are trained on;
* `ood`: out of distribution, outside the training range on either side;
* `fixed`: every multiplier is 1 (the paper's appendix study).

A user's own split is a mapping from parameter names to ranges; what it leaves out stays at 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hipshield.errors import TaskError, did_you_mean

Range = tuple[float, float]
Split = str | Mapping[str, Range | Sequence[Range]]

SPLITS = ("train", "ood", "fixed")


@dataclass(frozen=True)
class Parameter:
    """One hidden multiplier and the ranges it is drawn from.

    Attributes:
        name: what it multiplies, for instance 'mass' or 'bthigh_length'.
        train: intervals of the training distribution.
        ood: intervals of the out-of-distribution test.

    With several intervals, each has the same chance, and the value is uniform inside it.
    """

    name: str
    train: tuple[Range, ...] = ((0.3, 1.7),)
    ood: tuple[Range, ...] = ((0.15, 0.3), (1.7, 2.5))

    def __post_init__(self) -> None:
        """Check and normalise the intervals."""
        for field in ("train", "ood"):
            object.__setattr__(self, field, checked_ranges(getattr(self, field), self.name))

    def ranges(self, split: str) -> tuple[Range, ...]:
        """Return the intervals of a named split."""
        return {"train": self.train, "ood": self.ood, "fixed": ((1.0, 1.0),)}[split]


def checked_ranges(ranges: Range | Sequence[Range], name: str) -> tuple[Range, ...]:
    """Return intervals as a tuple of pairs, or say which of them is wrong."""
    try:
        array = np.asarray(ranges, dtype=float)
    except (TypeError, ValueError):
        raise TaskError(f"Ranges of '{name}' must be numbers, got {ranges!r}.") from None
    if array.shape == (2,):
        array = array[None]
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise TaskError(
            f"Ranges of '{name}' must be (low, high) or a list of such pairs, got {ranges!r}."
        )
    for low, high in array.tolist():
        if not np.isfinite([low, high]).all() or low <= 0:
            raise TaskError(
                f"Range ({low:g}, {high:g}) of '{name}' must be positive and finite:"
                " it multiplies a physical constant."
            )
        if low > high:
            raise TaskError(
                f"Range ({low:g}, {high:g}) of '{name}' is reversed: write ({high:g}, {low:g})."
            )
    return tuple((low, high) for low, high in array.tolist())


@dataclass(frozen=True)
class Sampler:
    """Draws φ for one robot: intervals by parameter, padded to a rectangle.

    Attributes:
        names: parameter names, in the order of φ.
        low, high: interval ends, shape (parameters, most intervals).
        count: number of intervals of each parameter, shape (parameters,).
    """

    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    count: np.ndarray

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return one φ, shape (parameters,): first which interval, then where inside it."""
        which = (rng.random(len(self.names)) * self.count).astype(int)
        rows = np.arange(len(self.names))
        low, high = self.low[rows, which], self.high[rows, which]
        return low + rng.random(len(self.names)) * (high - low)


def make_sampler(parameters: Sequence[Parameter], split: Split) -> Sampler:
    """Build the sampler of a split: one of `SPLITS`, or a mapping of names to ranges."""
    by_name = {p.name: p for p in parameters}
    if isinstance(split, str):
        if split not in SPLITS:
            raise TaskError(f"Unknown split '{split}'." + did_you_mean(split, SPLITS))
        ranges = {name: p.ranges(split) for name, p in by_name.items()}
    else:
        for name in split:
            if name not in by_name:
                raise TaskError(
                    f"This task has no hidden parameter '{name}'." + did_you_mean(name, by_name)
                )
        ranges = {n: checked_ranges(split.get(n, (1.0, 1.0)), n) for n in by_name}
    most = max((len(r) for r in ranges.values()), default=1)
    low = np.ones((len(ranges), most))
    high = np.ones((len(ranges), most))
    for i, intervals in enumerate(ranges.values()):
        for j, (a, b) in enumerate(intervals):
            low[i, j], high[i, j] = a, b
    count = np.array([len(r) for r in ranges.values()], dtype=int)
    return Sampler(tuple(ranges), low, high, count)
