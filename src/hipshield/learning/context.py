"""Contexts: what a policy is told about the physics besides its observation.

`none`: nothing. `oracle`: the hidden parameters φ themselves, the upper bound that the baselines
get. `encoder`: the belief b that a fitted predictor forms of the robot while it drives.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.models import identify
from hipshield.models.identify import Track
from hipshield.models.store import Model


class Context(NamedTuple):
    """One way of telling a policy about the physics.

    Attributes:
        name: how people call it.
        size: (arena, model) -> number of values.
        read: (arena, model, track) -> values now, shape (robots, size).
    """

    name: str
    size: Callable[[Any, Any], int]
    read: Callable[[Any, Any, Any], np.ndarray]


CONTEXTS = {
    "none": Context(
        "none",
        size=lambda arena, model: 0,
        read=lambda arena, model, track: np.zeros((arena.robots, 0)),
    ),
    "oracle": Context(
        "oracle",
        size=lambda arena, model: arena.hidden.shape[1],
        read=lambda arena, model, track: arena.hidden,
    ),
    "encoder": Context(
        "encoder",
        size=lambda arena, model: model.predictor.context,
        read=lambda arena, model, track: np.asarray(identify.beliefs(*model[:2], track)),
    ),
}


def find_context(name: str) -> Context:
    """Return a context by name."""
    if name not in CONTEXTS:
        raise HipshieldError(f"Unknown context '{name}'." + did_you_mean(name, CONTEXTS))
    return CONTEXTS[name]


def check_model(context: str, shield: str, model: str) -> None:
    """Check that a model is named where one is needed, and only there."""
    users = [f"context '{context}'"] if context == "encoder" else []
    users += [f"shield '{shield}'"] if shield != "none" else []
    if users and not model:
        raise HipshieldError(
            f"The {users[0]} needs --model FILE: fit one with `hipshield fit`, for instance."
        )
    if model and not users:
        raise HipshieldError(
            "--model is for the context 'encoder' and for shields; this run has neither."
        )


def begin_following(model: Model | None, arena: Any, now: Any) -> Track | None:
    """Start following the robots of an arena that was just reset, if there is a model."""
    if model is None:
        return None
    return identify.begin(*model[:2], now.obs, now.feature, arena.hidden)


def follow(model: Model | None, track: Track | None, action: np.ndarray, now: Any) -> Track | None:
    """Take in what the robots did, and where that led."""
    if model is None or track is None:
        return None
    return identify.observe(*model[:2], track, action, now.obs, now.feature)
