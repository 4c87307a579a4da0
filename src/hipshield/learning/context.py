"""Contexts: what a policy is told about the physics besides its observation.

`none`: nothing. `oracle`: the hidden parameters φ themselves, the upper bound that the baselines
get. `encoder`: the belief b that a fitted predictor forms of the robot while it drives. A context
is a record of four functions; its memory is whatever it has to remember within an episode.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.models import identify
from hipshield.models.store import Model

NAMES = ("none", "oracle", "encoder")


class Context(NamedTuple):
    """One way of telling a policy about the physics.

    Attributes:
        name: how people call it.
        size: arena -> number of values.
        begin: (arena, first step) -> memory, when episodes start.
        read: (arena, memory) -> values now, shape (robots, size).
        observe: (memory, executed actions, step) -> memory.
    """

    name: str
    size: Callable[[Any], int]
    begin: Callable[[Any, Any], Any]
    read: Callable[[Any, Any], np.ndarray]
    observe: Callable[[Any, np.ndarray, Any], Any]


def _without_memory(
    name: str, size: Callable[[Any], int], read: Callable[[Any], np.ndarray]
) -> Context:
    return Context(
        name,
        size,
        begin=lambda arena, step: None,
        read=lambda arena, memory: read(arena),
        observe=lambda memory, action, step: None,
    )


NONE = _without_memory("none", lambda arena: 0, lambda arena: np.zeros((arena.robots, 0)))
ORACLE = _without_memory("oracle", lambda arena: arena.hidden.shape[1], lambda arena: arena.hidden)


def make_encoder(model: Model) -> Context:
    """Return the context of a fitted predictor's belief b, from the first transition on."""
    predictor, params, _ = model
    return Context(
        "encoder",
        size=lambda arena: predictor.context,
        begin=lambda arena, step: identify.begin(
            predictor, params, step.obs, step.feature, arena.hidden
        ),
        read=lambda arena, track: np.asarray(identify.beliefs(predictor, params, track)),
        observe=lambda track, action, step: identify.observe(
            predictor, params, track, action, step.obs, step.feature
        ),
    )


def check_context(name: str, model: str) -> None:
    """Check that a context and the model that it needs, or does not, are named."""
    if name not in NAMES:
        raise HipshieldError(f"Unknown context '{name}'." + did_you_mean(name, NAMES))
    if name == "encoder" and not model:
        raise HipshieldError(
            "The context 'encoder' needs --model FILE: fit one with `hipshield fit`, for instance."
        )
    if model and name != "encoder":
        raise HipshieldError(f"--model is for the context 'encoder', not for '{name}'.")


def find_context(name: str, model: Model | None = None) -> Context:
    """Return a context by name: 'none', 'oracle', or 'encoder' with its model."""
    check_context(name, "given" if model else "")
    return make_encoder(model) if model else {"none": NONE, "oracle": ORACLE}[name]
