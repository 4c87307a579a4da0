"""What a step gives, and how the rows of two steps are put together."""

from typing import NamedTuple

import numpy as np

FAULTS = ("", "action is not finite: this robot did not move", "physics diverged: state kept")


class Step(NamedTuple):
    """What a step gives, one row a robot.

    Attributes:
        obs: observation, shape (robots, size).
        reward, cost, margin: shape (robots,); the cost is 1 exactly when the margin ν ≤ 0.
        feature: e(s), shape (robots, 2) or (robots, 1).
        met: the goal was met in this step.
        terminated: always False: these tasks never end early.
        truncated: the episode's time is over.
        fault: index into `FAULTS`; 0 when all is well.
        terms: the reward's parts by name, each of shape (robots,).
    """

    obs: np.ndarray
    reward: np.ndarray
    cost: np.ndarray
    margin: np.ndarray
    feature: np.ndarray
    met: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    fault: np.ndarray
    terms: dict[str, np.ndarray]


def merge(old: Step, new: Step, rows: np.ndarray) -> Step:
    """Return `old` with some rows (a mask or indices) from `new`."""

    def pick(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = a.copy()
        a[rows] = b[rows]
        return a

    terms = {k: pick(old.terms[k], new.terms[k]) for k in new.terms}
    rows_of = {k: pick(getattr(old, k), getattr(new, k)) for k in Step._fields[:-1]}
    return Step(**rows_of, terms=terms)


def held(last: Step, fault: np.ndarray) -> Step:
    """Return what a robot that did not move gets: its last look, no reward, its fault."""
    zero = np.zeros_like(last.reward)
    return last._replace(
        reward=zero,
        terms=dict.fromkeys(last.terms, zero),
        met=np.zeros_like(last.met),
        fault=fault,
        truncated=last.truncated | (fault == 2),
    )
