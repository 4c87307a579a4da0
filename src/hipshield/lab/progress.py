"""The progress of a training run, on a terminal as a bar and elsewhere as lines."""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hipshield.learning.config import TrainConfig


class TrainingBar:
    """Shows epochs: return, cost rate, λ, steps per second and the time left.

    Args:
        config: the run.
    """

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.console = Console()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed}/{task.total}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[facts]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task(config.name, total=config.epochs, facts="compiling")

    def show(self, row: dict[str, Any]) -> None:
        """Show one epoch's row."""
        facts = (
            f"return {row['return']:.2f}  cost {100 * row['cost_rate']:.2f} %"
            f"  λ {row['multiplier']:.3f}  {row['steps_per_second']:,.0f} steps/s"
        )
        self.bar.update(self.task, completed=row["epoch"] + 1, facts=facts)
        if not self.console.is_terminal:
            print(f"epoch {row['epoch']}: {facts}", flush=True)

    def close(self) -> None:
        """Stop drawing; a second call does nothing."""
        self.bar.stop()

    def __enter__(self) -> "TrainingBar":
        self.bar.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()
