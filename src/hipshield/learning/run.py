"""A finished (or unfinished) run: its configuration, its progress, and a policy to act with."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hipshield.errors import HipshieldError
from hipshield.learning.acting import Actor
from hipshield.learning.collect import Sight
from hipshield.learning.config import TrainConfig
from hipshield.learning.files import PROGRESS, read_config, read_model, read_rows, read_state
from hipshield.learning.learner import Learner
from hipshield.learning.plan import make_plan


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy that acts on raw observations: its normaliser is inside, as is a safety layer.

    Attributes:
        learner: which learned it.
        state: of the training that it comes from.
        sight: what it sees besides the observation.
        inputs: number of values it takes.
        actions: number of values it gives.
    """

    learner: Learner
    state: Any
    sight: Sight
    inputs: int
    actions: int

    @property
    def theta(self) -> np.ndarray:
        """Its parameters, as one vector."""
        return np.asarray(self.state.theta)

    def __call__(self, inputs: np.ndarray, seed: int | None = None, moment: int = 0) -> np.ndarray:
        """Return actions in [−1, 1] for one input or a batch of them.

        Args:
            inputs: what the policy sees: the observation, then the context's values (and
                Sauté's budget), shape (inputs,) or (robots, inputs).
            seed: draw actions with this seed; None takes the distribution's mean. A policy that
                is deterministic gives the same action for any.
            moment: step number, so that each step draws anew.
        """
        x = np.atleast_2d(np.asarray(inputs, np.float32))
        if x.ndim != 2 or x.shape[1] != self.inputs:
            raise HipshieldError(
                f"This policy takes {self.inputs} values: the observation and its context."
                f" Got shape {np.shape(inputs)}."
            )
        shape = (len(x), self.actions)
        noise: Any = 0.0
        if seed is not None:
            noise = np.random.default_rng([seed, moment]).standard_normal(shape, np.float32)
        action = np.clip(self.act(x, noise), -1, 1)
        return action if np.ndim(inputs) == 2 else action[0]

    @cached_property
    def act(self) -> Actor:
        """(inputs, noise) ↦ actions, not yet clipped."""
        return self.learner.policy(self.state)


@dataclass(frozen=True)
class Run:
    """A run's folder, read.

    Attributes:
        folder: where it is.
        config: what was run.
        epochs: finished epochs.
        policy: the trained policy.
    """

    folder: Path
    config: TrainConfig
    epochs: int
    policy: TrainedPolicy

    @property
    def progress(self) -> list[dict[str, float]]:
        """One row an epoch."""
        rows = read_rows(self.folder / PROGRESS)
        return [{k: float(v) for k, v in row.items()} for row in rows]

    @classmethod
    def load(cls, folder: str | Path) -> "Run":
        """Read a run.

        Raises:
            HipshieldError: the folder is not a run, or its checkpoint is damaged.
        """
        folder = Path(folder)
        config = read_config(folder)
        plan = make_plan(config, threads=1, robots=1, model=read_model(folder, config))
        state = read_state(folder, config, plan.learner.start())
        state = jax.tree.map(np.asarray, state)
        inputs, actions = plan.sight.size(plan.world), plan.world.actions
        policy = TrainedPolicy(plan.learner, state, plan.sight, inputs, actions)
        return cls(folder, config, int(state.epoch), policy)
