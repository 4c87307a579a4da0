"""A learner: what the training loop, evaluations and `Run.load` need of a way to learn."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hipshield.learning.acting import Actor, Pilot
from hipshield.learning.state import Batch

Metrics = dict[str, Any]
Improved = tuple[Any, Any, Metrics]  # the state to act with, what `finish` needs, and metrics
Memory = Any  # experience of earlier epochs, in whatever form a learner wants it


class Learner(NamedTuple):
    """One way to learn. A state is a pytree of arrays whose field `epoch` counts finished epochs.

    Attributes:
        start: () ↦ the state before the first epoch.
        policy: state ↦ the policy that has been learned.
        explorer: state ↦ who collects the next epoch.
        remembers: earlier epochs whose experience an update needs.
        recall: these epochs and their experience, oldest first ↦ memory.
        improve: (state, memory, batch) ↦ memory, and the state as far as collecting needs it.
            The memory that was given is used up.
        finish: the rest of the update, which may run beside the next collecting ↦ the state
            after the epoch, and what a person wants to see of it.
    """

    start: Callable[[], Any]
    policy: Callable[[Any], Actor]
    explorer: Callable[[Any], Pilot]
    remembers: int
    recall: Callable[[Iterable[tuple[int, Batch]]], Memory]
    improve: Callable[[Any, Memory, Batch], tuple[Memory, Improved]]
    finish: Callable[[Improved], tuple[Any, Metrics]]
