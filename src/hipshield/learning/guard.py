"""The guard: a shield around whoever drives a batch of robots, in training and in evaluation.

    guard = make_guard("plan", model)
    watch = guard.begin(robots, seed)
    action, watch, facts = guard.decide(watch, track, proposed, act, scene)
    watch = guard.observe(watch, track, action, next track)

The policy proposes; what is executed is the guard's decision. Learning takes the *proposed* action
for its update, so to the policy the shield is a part of the world: the probabilities are those of
what it drew, the rewards and costs those of what was done. Learning from executed actions would
need the shield's probability of choosing them, which it does not have.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.models.identify import Track
from hipshield.models.store import Model
from hipshield.safety import batch
from hipshield.safety.settings import Shield, paper, plan
from hipshield.safety.shield import ShieldState, Situation, Verdict

PRESETS = {"paper": paper, "plan": plan}


Act = Callable[[np.ndarray], np.ndarray]  # noise -> actions, not yet clipped


def check_guard(name: str) -> None:
    """Check the name of a shield."""
    known = ("none", *PRESETS)
    if name not in known:
        raise HipshieldError(f"Unknown shield '{name}'." + did_you_mean(name, known))


def facts_of(verdict: Verdict) -> dict[str, np.ndarray]:
    """Return what is worth counting of a verdict: shares, when they are averaged.

    `triggered`: the pre-check found the robot near to something. `intervened`: another action than
    the policy's was executed. `empty`: nothing was safe (its mean is the paper's ε̄). `unbounded`:
    Γ was infinite one step ahead.
    """
    return {
        "triggered": np.asarray(verdict.triggered),
        "intervened": np.asarray(verdict.intervened),
        "empty": np.asarray(verdict.empty),
        "unbounded": np.isinf(np.asarray(verdict.gamma)[:, 0]),
    }


class Watch(NamedTuple):
    """What a guard remembers between steps.

    Attributes:
        state: of each robot's shield.
        key: for choices at random.
        seed: of the run and epoch, for the policy's other proposals.
        time: steps so far.
    """

    state: ShieldState
    key: Any
    seed: tuple[int, int]
    time: int


@dataclass(frozen=True, eq=False)
class Guard:
    """A shield with its model.

    Attributes:
        shield: the settings.
        model: what it predicts with.
        prior: radii until the shield is calibrated, one a lead time.
    """

    shield: Shield
    model: Model
    prior: np.ndarray

    def begin(self, robots: int, seed: int, epoch: int = 0) -> Watch:
        """Start an episode of each robot."""
        key = jax.random.fold_in(jax.random.key(seed), epoch)
        return Watch(batch.begin(self.shield, robots, self.prior), key, (seed, epoch), 0)

    def decide(
        self, watch: Watch, track: Track, proposed: np.ndarray, act: Act, scene: Any
    ) -> tuple[np.ndarray, Watch, dict[str, np.ndarray]]:
        """Return what is executed, shape (robots, actions), and facts, one value a robot.

        Args:
            watch: so far.
            track: where the robots are, and what is believed of them.
            proposed: what the policy wants, within the bounds, shape (robots, actions).
            act: noise ↦ another action of the policy in the same situation.
            scene: E, one row a robot.
        """
        rng = np.random.default_rng([*watch.seed, watch.time])
        draws = [
            np.clip(act(rng.standard_normal(proposed.shape, np.float32)), -1.0, 1.0)
            for _ in range(self.shield.samples - 1)
        ]
        samples = np.stack([proposed, *draws], 1)
        keys = _keys(watch.key, watch.time, len(samples))
        situation = Situation(track, samples, scene, keys)
        action, state, verdict = batch.decide(
            self.shield, self.model.params, watch.state, situation
        )
        return np.asarray(action), watch._replace(state=state), facts_of(verdict)

    def observe(self, watch: Watch, before: Track, action: np.ndarray, after: Track) -> Watch:
        """Calibrate on what the executed actions led to."""
        state, _ = batch.observe(self.shield, self.model.params, watch.state, before, action, after)
        return watch._replace(state=state, time=watch.time + 1)


def make_guard(name: str, model: Model | None, **changes: Any) -> Guard | None:
    """Return the guard of a preset, or None for 'none'.

    Args:
        name: 'none', 'paper' or 'plan'.
        model: what it predicts with; its held-out errors are the first radii.
        changes: of the preset's settings.
    """
    check_guard(name)
    if name == "none":
        return None
    if model is None:
        raise HipshieldError(f"The shield '{name}' predicts with a model: give it one.")
    shield = PRESETS[name](model.predictor, **changes)
    leads = np.array(sorted(model.prior))
    errors = np.array([model.prior[h] for h in leads])
    # Between two leads that were measured, the later one's error; beyond the last, none is known.
    after = np.searchsorted(leads, shield.leads)
    prior = np.append(errors, np.inf)[after]
    return Guard(shield, model, prior.astype(np.float32))


@partial(jax.jit, static_argnums=2)
def _keys(key: Any, time: Any, robots: int) -> Any:
    """Return a key for each robot at one step."""
    return jax.random.split(jax.random.fold_in(key, time), robots)
