"""Verbs about learning: train a policy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hipshield.learning.config import TrainConfig


@dataclass(frozen=True)
class Train:
    """Train a policy. Ctrl-C keeps the last finished epoch; --resume goes on from there."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    """The run."""
    out: Path = Path("runs")
    """Folder that holds runs."""
    resume: bool = False
    """Go on from the last checkpoint, if there is one."""
    threads: int | None = None
    """Physics threads; default: one per core. The result does not depend on it."""
    evaluate_every: int = 0
    """Epochs between evaluations in and out of distribution (evaluations.csv); 0: never."""

    def run(self) -> None:
        """Train, showing each epoch."""
        from hipshield.lab.progress import TrainingBar
        from hipshield.learning.train import Extras, train

        extras = Extras(self.threads, self.evaluate_every)
        folder = self.out / self.config.name
        with TrainingBar(self.config) as bar:
            try:
                run = train(self.config, self.out, resume=self.resume, extras=extras,
                            show=bar.show)  # fmt: skip
            except KeyboardInterrupt:
                bar.close()
                print(f"stopped; go on with the same command and --resume ({folder})")
                raise
        print(f"finished {run.epochs} epochs: {folder}")
