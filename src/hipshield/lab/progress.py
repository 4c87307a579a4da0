"""The progress of what takes a while, on a terminal as a bar and elsewhere as lines."""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hipshield.learning.config import TrainConfig

# What an epoch's row may have besides return and cost: λ, or the share of corrected actions.
OWN_FACTS = {"multiplier": "λ {:.3f}", "corrected": "corrected {:.0%}"}


def _bar(console: Console) -> Progress:
    """Return a bar with what is done, the time left, and facts; invisible where nobody looks."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[facts]}"),
        console=console,
        disable=not console.is_terminal,
    )


class TrainingBar:
    """Shows epochs: return, cost rate, the method's own, steps per second and the time left.

    Args:
        config: the run.
    """

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.console = Console()
        self.bar = _bar(self.console)
        self.task = self.bar.add_task(config.name, total=config.epochs, facts="compiling")

    def show(self, row: dict[str, Any]) -> None:
        """Show one epoch's row."""
        own = "".join(f"  {form.format(row[n])}" for n, form in OWN_FACTS.items() if n in row)
        facts = (
            f"return {row['return']:.2f}  cost {100 * row['cost_rate']:.2f} %"
            f"{own}  {row['steps_per_second']:,.0f} steps/s"
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


class CountBar:
    """Shows how much of a number of things is done; elsewhere than on a terminal, lines.

    Args:
        what: is going on.
        total: number of things.
        unit: what they are called.
    """

    def __init__(self, what: str, total: int, unit: str) -> None:
        self.unit, self.what, self.total = unit, what, total
        self.console = Console()
        self.bar = _bar(self.console)
        self.task = self.bar.add_task(what, total=total, facts="")

    def show(self, done: int, facts: str = "") -> None:
        """Show that so many are done."""
        self.bar.update(self.task, completed=done, facts=facts)
        if not self.console.is_terminal:
            words = f": {facts}" if facts else ""
            print(f"{self.what}: {done} of {self.total} {self.unit}{words}", flush=True)

    def __enter__(self) -> "CountBar":
        self.bar.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.bar.stop()
