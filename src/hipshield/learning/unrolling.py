"""USL's safety layer: unrolled gradient steps that make an action cheap before it is executed.

    a ← clip(a − η g / ‖g‖_∞, −1, 1),   g = ∇_a Q_C(s, a),   while Q_C(s, a) > δ, at most K times

Zhang et al. (2023), "Evaluating model-free RL toward safety-critical tasks". Their other half, the
policy's loss with the weight κ on what Q_C exceeds δ by, is in `twin_delayed.py`. An action that
is not above δ passes bit for bit. NumPy, as all acting (`acting.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hipshield.learning.acting import Layer, make_eyes
from hipshield.learning.networks import Critic
from hipshield.learning.normaliser import Normaliser

# (rows, their actions) -> Q_C and its gradient to the action
CostModel = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
_TINY = 1e-8


@dataclass(frozen=True)
class Unrolling:
    """Settings; the defaults are the published ones.

    Attributes:
        penalty: κ, what an excess of Q_C over δ weighs in the policy's loss.
        threshold: δ of a cost limit of zero: what a fitted Q_C may read where nothing costs.
        step: η, by how much an iteration moves the action's component that moves most.
        iterations: K.
        warm_up: share of the run before the layer corrects anything.
    """

    penalty: float = 5.0
    threshold: float = 0.1
    step: float = 0.05
    iterations: int = 20
    warm_up: float = 0.2

    def bound(self, cost_limit: float, gamma: float, steps: int) -> float:
        """Return δ: the threshold, and the discounted share of what an episode may cost."""
        return self.threshold + cost_limit / steps * float((gamma ** np.arange(steps)).sum())


class Unrolled(NamedTuple):
    """What became of a batch of actions, one row a robot.

    Attributes:
        action: shape (robots, actions).
        before, after: Q_C of the proposed and of the returned action, shape (robots,).
        iterations: shape (robots,).
    """

    action: np.ndarray
    before: np.ndarray
    after: np.ndarray
    iterations: np.ndarray


def unroll(how: Unrolling, delta: float, cost: CostModel, proposed: np.ndarray) -> Unrolled:
    """Correct the actions that cost too much; robots that are done are not asked about again.

    Args:
        how: settings.
        delta: δ.
        cost: Q_C of these robots.
        proposed: actions in [−1, 1], shape (robots, actions).
    """
    rows, action = np.arange(len(proposed)), proposed.copy()
    value, slope = cost(rows, action)
    before, after, iterations = value, value.copy(), np.zeros(len(rows), int)
    for _ in range(how.iterations):
        high = value > delta
        if not high.any():
            break
        rows, slope = rows[high], slope[high]
        largest = np.abs(slope).max(1, keepdims=True)
        action[rows] = np.clip(action[rows] - how.step * slope / (largest + _TINY), -1, 1)
        iterations[rows] += 1
        value, slope = cost(rows, action[rows])
        after[rows] = value
    return Unrolled(action, before, after, iterations)


def make_layer(
    how: Unrolling, delta: float, critic: Critic, theta: Any, stats: Normaliser
) -> Layer:
    """Return (inputs, proposed actions) ↦ executed ones, and what is worth knowing of each.

    Args:
        how: settings.
        delta: δ.
        critic: Q_C(s, a), the action last in its input.
        theta: its parameters.
        stats: statistics of the policy's inputs.
    """
    see, parts = make_eyes(stats), [np.asarray(part) for part in critic.split(theta)]
    size = len(stats.mean)
    (of_state, of_action), bias = np.split(parts[0], [size]), parts[1]
    middle = [(parts[i], parts[i + 1]) for i in range(2, len(parts) - 2, 2)]
    weight, offset = parts[-2][:, 0], parts[-1][0]

    def layer(x: np.ndarray, proposed: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        state = see(x) @ of_state + bias  # the same in all iterations

        def cost(rows: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            hidden = [np.tanh(state[rows] + action @ of_action)]
            for w, b in middle:
                hidden.append(np.tanh(hidden[-1] @ w + b))
            slope = weight * (1 - hidden[-1] ** 2)
            for (w, _), below in zip(middle[::-1], hidden[-2::-1], strict=True):
                slope = (slope @ w.T) * (1 - below**2)
            return hidden[-1] @ weight + offset, slope @ of_action.T

        done = unroll(how, delta, cost, proposed)
        facts = {
            "q_cost_proposed": done.before,
            "q_cost_executed": done.after,
            "corrected": done.iterations > 0,
            "iterations": done.iterations,
            "correction": np.abs(done.action - proposed).max(1),
        }
        return done.action, facts

    return layer
