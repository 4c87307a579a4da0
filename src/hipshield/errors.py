"""Errors that a person can act on: what was wrong, where, and what to do.

The command line prints them in one line and exits with code 2; a library user catches
`HipshieldError`. They are `ValueError`s, because each is about a value somebody gave.
"""

import difflib
from collections.abc import Iterable


class HipshieldError(ValueError):
    """Base of every error that hipshield raises on purpose."""


class TaskError(HipshieldError):
    """A task description, its name, or a range of its hidden parameters makes no sense."""


class LayoutError(HipshieldError):
    """The objects of a task do not fit into its extents."""


class ActionError(HipshieldError):
    """An action has the wrong shape, or is not a finite number."""


class NotResetError(HipshieldError):
    """A world was stepped, saved or drawn before its first reset."""


class SnapshotError(HipshieldError):
    """A saved state does not belong to this world, or its file is damaged."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ' Did you mean X?' for the nearest known name, else the list of all names."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f" Did you mean '{near[0]}'?" if near else f" Known: {', '.join(names)}."
