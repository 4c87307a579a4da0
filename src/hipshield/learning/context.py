"""Contexts: what a policy is told about the physics besides its observation.

`none`: nothing. `oracle`: the hidden parameters φ themselves, the upper bound that the baselines
get. An encoder's belief b will be a third: a context is any record of these two functions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hipshield.errors import HipshieldError, did_you_mean


class Context(NamedTuple):
    """One way of telling a policy about the physics.

    Attributes:
        name: how people call it.
        size: arena -> number of values.
        read: arena -> values now, shape (robots, size).
    """

    name: str
    size: Callable[[Any], int]
    read: Callable[[Any], np.ndarray]


CONTEXTS = {
    "none": Context("none", lambda arena: 0, lambda arena: np.zeros((arena.robots, 0))),
    "oracle": Context("oracle", lambda arena: arena.hidden.shape[1], lambda arena: arena.hidden),
}


def find_context(name: str) -> Context:
    """Return a context by name: 'none' or 'oracle'."""
    if name not in CONTEXTS:
        raise HipshieldError(f"Unknown context '{name}'." + did_you_mean(name, CONTEXTS))
    return CONTEXTS[name]
