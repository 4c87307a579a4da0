"""The configuration of a training run: all that its result depends on, with its name and hash."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from hipshield.errors import HipshieldError
from hipshield.learning.catalogue import find_algorithm
from hipshield.learning.context import check_model, find_context
from hipshield.learning.guard import check_guard
from hipshield.learning.sro import Sro
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.hidden import SPLITS
from hipshield.worlds.task import Task

VERSION = 1  # of the configuration's and the checkpoint's format


@dataclass(frozen=True)
class TrainConfig:
    """One run. Defaults are the published ones."""

    task: str = "point-goal"
    """Task, with its level if it is not 1: point-goal, car-push-2, ..."""
    algo: str = "rcpo"
    """ppo, trpo, npg, ppo-lag, trpo-lag, rcpo, cpo, cup, ppo-saute, trpo-saute or usl."""
    context: str = "oracle"
    """What the policy is told about the physics: none, oracle or encoder."""
    model: str = ""
    """File of the fitted predictor that the context 'encoder' takes b from, and a shield its
    predictions."""
    shield: str = "none"
    """What decides about the actions that are executed: none, paper or plan."""
    sro: float = 0.0
    """Weight α of the safety-regularised objective; 0 switches it off."""
    sro_estimator: str = "density"
    """How SRO weighs local actions: density (the paper's pseudocode) or average."""
    seed: int = 0
    """Of everything random in the run."""
    steps: int = 2_000_000
    """Environment steps in all; rounded up to whole epochs."""
    epoch_steps: int = 20_000
    """Environment steps of an epoch; must be whole episodes."""
    split: str = "train"
    """Distribution of the hidden parameters: train, ood or fixed."""
    cost_limit: float = 0.0
    """Mean cost of an episode that constraints allow; Sauté's budget."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the networks' hidden layers."""
    gamma: float = 0.99
    """Discount of rewards."""
    cost_gamma: float = 0.99
    """Discount of costs."""
    lam: float = 0.95
    """λ of GAE, for rewards and costs."""
    multiplier_rate: float = 0.035
    """Adam's rate on the Lagrange multiplier."""

    def __post_init__(self) -> None:
        """Check the fields, and that they fit together."""
        row = find_algorithm(self.algo)
        find_context(self.context)
        check_guard(self.shield)
        check_model(self.context, self.shield, self.model)
        task = self.find_task()
        Sro(weight=self.sro, estimator=self.sro_estimator)
        if self.sro and not row.has_advantage:
            raise HipshieldError(f"'{self.algo}' has no advantage for SRO to shape: leave out sro.")
        if self.shield != "none" and not row.has_advantage:
            raise HipshieldError(
                f"'{self.algo}' learns from executed actions, which a shield would change: leave"
                " out the shield."
            )
        if self.split not in SPLITS:
            raise HipshieldError(f"Unknown split '{self.split}'. Known: {', '.join(SPLITS)}.")
        if self.steps < 1 or self.epoch_steps % task.episode_steps or self.epoch_steps < 1:
            raise HipshieldError(
                f"epoch_steps must be a multiple of the task's {task.episode_steps} steps, and"
                f" steps at least 1; got {self.epoch_steps} and {self.steps}."
            )
        if self.cost_limit < 0 or not self.hidden or min(self.hidden) < 1:
            raise HipshieldError("cost_limit must be zero or more, hidden widths at least 1.")
        if not 0 <= self.seed < 2**31:
            raise HipshieldError(f"seed must be between 0 and 2147483647, got {self.seed}.")
        for name in ("gamma", "cost_gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise HipshieldError(f"{name} must be between 0 and 1, got {getattr(self, name)}.")

    def find_task(self) -> Task:
        """Return the task."""
        return find_task(self.task)

    @property
    def robots(self) -> int:
        """Robots of the batch: each runs one episode an epoch."""
        return self.epoch_steps // self.find_task().episode_steps

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return -(-self.steps // self.epoch_steps)

    @property
    def name(self) -> str:
        """Folder name: task, method and seed."""
        sro = f"+sro{self.sro:g}" if self.sro else ""
        shield = "" if self.shield == "none" else f"+{self.shield}"
        return f"{self.task}_{self.algo}{sro}{shield}_{self.context}_s{self.seed}"

    @property
    def hash(self) -> str:
        """Identifies the run: equal for equal configurations, whatever their order on paper.

        Fields at their defaults do not count, so a field that a later version adds leaves the
        runs of this one readable. Changing a default needs a new `VERSION`.
        """
        defaults = {f.name: f.default for f in dataclasses.fields(self)}
        chosen = {k: v for k, v in dataclasses.asdict(self).items() if v != defaults[k]}
        text = json.dumps(chosen | {"version": VERSION}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Return the configuration as JSON with sorted names."""
        fields = dataclasses.asdict(self) | {"version": VERSION}
        return json.dumps(fields, sort_keys=True, indent=1)

    @classmethod
    def from_json(cls, text: str, where: str = "configuration") -> "TrainConfig":
        """Read what `to_json` wrote."""
        try:
            fields: dict[str, Any] = json.loads(text)
            fields["hidden"] = tuple(fields["hidden"])
            version = fields.pop("version")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HipshieldError(f"{where} is not a readable configuration: {error}") from None
        if version != VERSION:
            raise HipshieldError(f"{where} has format {version}, this program reads {VERSION}.")
        known = {f.name for f in dataclasses.fields(cls)}
        if unknown := set(fields) - known:
            raise HipshieldError(
                f"{where} has fields that this version does not know: {sorted(unknown)}."
            )
        return cls(**fields)
