"""The training loop: collect, update, write down, show; from the start or from a checkpoint.

>>> run = train(TrainConfig(task="point-goal", algo="rcpo", steps=200_000), "runs")
>>> action = run.policy(obs, hidden)
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from tensorboardX import SummaryWriter

from hipshield.errors import HipshieldError
from hipshield.files import write_whole
from hipshield.learning.collect import Tally, collect
from hipshield.learning.config import TrainConfig
from hipshield.learning.evaluate import evaluate, summary
from hipshield.learning.files import (
    CONFIG,
    PROGRESS,
    STATE,
    keep_batches,
    keep_model,
    locked,
    read_batch,
    read_rows,
    read_state,
    write_batch,
    write_rows,
    write_state,
)
from hipshield.learning.learner import Improved
from hipshield.learning.plan import Plan, make_plan
from hipshield.learning.run import Run
from hipshield.learning.state import Batch
from hipshield.worlds.catalogue import base_name, find_task

Row = dict[str, Any]
Show = Callable[[Row], None]


@dataclass(frozen=True)
class Extras:
    """What a run may have besides its configuration, without changing its result.

    Attributes:
        threads: physics threads; None for one per core.
        evaluate_every: epochs between evaluations, 0 for none.
        evaluate_episodes: episodes of each.
    """

    threads: int | None = None
    evaluate_every: int = 0
    evaluate_episodes: int = 20

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.evaluate_every < 0 or self.evaluate_episodes < 1:
            raise HipshieldError("Evaluate every 0 (never) or more epochs, 1 or more episodes.")


def train(
    config: TrainConfig,
    out: str | Path = "runs",
    *,
    resume: bool = False,
    extras: Extras | None = None,
    show: Show = lambda row: None,
) -> Run:
    """Train a policy, or go on training it.

    Args:
        config: the run.
        out: folder that holds runs; this one's is named by its configuration.
        resume: go on from the last checkpoint, if there is one.
        extras: what does not change the result.
        show: called with each epoch's row.

    Returns:
        The finished run.

    Raises:
        HipshieldError: the folder holds a run already and `resume` was not asked for, or its
            checkpoint is damaged, or something cannot be written.
        KeyboardInterrupt: stopped by hand; the last finished epoch's checkpoint is kept.
    """
    folder = Path(out) / config.name
    if (folder / STATE).exists() and not resume:
        raise HipshieldError(f"'{folder}' holds a run already: go on with --resume, or use --out.")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        extras = extras or Extras()
        plan = make_plan(config, extras.threads, model=keep_model(folder, config))
        state = plan.learner.start()
        if (folder / STATE).exists():
            state = read_state(folder, config, state)
        write_whole(folder / CONFIG, config.to_json().encode())

        def finished(row: Row, state: Any) -> None:
            show(row)
            if extras.evaluate_every and int(state.epoch) % extras.evaluate_every == 0:
                _evaluate(config, plan, folder, extras, state)

        _epochs(config, plan, state, folder, finished)
    return Run.load(folder)


def _epochs(
    config: TrainConfig,
    plan: Plan,
    state: Any,
    folder: Path,
    finished: Callable[[Row, Any], None],
) -> None:
    """Run the epochs that are still to come; call `finished` after each.

    Collecting needs the policy only, so the critics of an on-policy epoch are fitted, and the
    files of any written, beside the next epoch's collecting: the same bits, a quarter faster.
    """
    first, learner = int(state.epoch), plan.learner
    needed = _needed(config, learner.remembers, first)
    keep_batches(folder, needed)  # a kill may have left others behind
    memory = learner.recall((epoch, read_batch(folder, config, epoch)) for epoch in needed)
    with Ledger(folder, first, learner.remembers) as ledger, ThreadPoolExecutor(1) as beside:

        def finish(improved: Improved, collected: Collected) -> tuple[Any, Row]:
            state, row = finish_epoch(config, plan, improved, collected)
            speed = ledger.write(config, state, row, collected)
            return state, row | {"steps_per_second": speed}

        pending: Future[tuple[Any, Row]] | None = None
        for epoch in range(first, config.epochs):
            collected = collect_epoch(config, plan, state)
            if pending is not None:
                state, row = pending.result()
                finished(row, state)
            memory, improved = learner.improve(state, memory, collected.batch)
            pending = beside.submit(finish, improved, collected)
            state = improved[0]._replace(epoch=jax.numpy.asarray(epoch + 1))
        if pending is not None:
            state, row = pending.result()
            finished(row, state)


def _needed(config: TrainConfig, remembers: int, epoch: int) -> range:
    """Return the epochs whose experience a run needs to go on from a checkpoint."""
    return range(max(0, epoch - remembers), epoch) if epoch < config.epochs else range(0)


class Ledger:
    """Writes down finished epochs: their rows, TensorBoard events, and the last checkpoint.

    Args:
        folder: of the run.
        first: epochs that are finished already; later rows that a kill left behind are dropped.
        remembers: newest epochs whose experience is kept, too.
    """

    def __init__(self, folder: Path, first: int, remembers: int) -> None:
        self.folder, self.remembers = folder, remembers
        self.rows: list[Row] = list(read_rows(folder / PROGRESS)[:first])
        self.timing: list[Row] = list(read_rows(folder / "timing.csv")[:first])
        if len(self.rows) < first:
            raise HipshieldError(f"'{folder / PROGRESS}' lacks epochs that its checkpoint has.")
        self.board = SummaryWriter(str(folder / "events"), purge_step=first)
        self.last = time.perf_counter()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *problem: object) -> None:
        self.board.close()

    def write(self, config: TrainConfig, state: Any, row: Row, collected: "Collected") -> float:
        """Write one epoch; return the steps per second since the last."""
        needed = _needed(config, self.remembers, int(state.epoch))
        now = time.perf_counter()
        spent, self.last = now - self.last, now
        speed = config.epoch_steps / spent
        times = {"seconds": spent, "collecting": collected.seconds, "steps_per_second": speed}
        self.rows.append(row)
        self.timing.append({"epoch": row["epoch"]} | {k: f"{v:.4f}" for k, v in times.items()})
        # The checkpoint last: it must never know of an epoch that table or replay lack.
        write_rows(self.folder / PROGRESS, self.rows)
        write_rows(self.folder / "timing.csv", self.timing)
        if row["epoch"] in needed:
            write_batch(self.folder, config, row["epoch"], collected.batch)
        write_state(self.folder, config, state)
        keep_batches(self.folder, needed)
        for name, value in row.items():
            self.board.add_scalar(name, value, row["steps"])
        return speed


def _evaluate(config: TrainConfig, plan: Plan, folder: Path, extras: Extras, state: Any) -> None:
    """Evaluate in and out of distribution, and add the rows to `evaluations.csv`."""
    epoch, path = int(state.epoch), folder / "evaluations.csv"
    rows: list[Row] = [dict(r) for r in read_rows(path) if int(r["epoch"]) < epoch - 1]
    ood = find_task(base_name(config.task), 2)
    for split, task in (("train", config.find_task()), ("ood", ood)):
        act = plan.learner.policy(state)
        tally = evaluate(act, plan.sight, task, split, extras.evaluate_episodes, plan.guard)
        facts = {"epoch": epoch - 1, "split": split, "task": task.name}
        rows.append(facts | summary(tally, task.episode_steps))
    write_rows(path, rows)


class Collected(NamedTuple):
    """An epoch's experience, what its episodes came to, and the seconds it took."""

    batch: Batch
    tally: Tally
    seconds: float


def collect_epoch(config: TrainConfig, plan: Plan, state: Any) -> Collected:
    """Run the episodes of the epoch that a state is about to begin."""
    pilot = plan.learner.explorer(state)._replace(guard=plan.guard)  # waits for the update before
    start = time.perf_counter()
    batch, tally = collect(
        plan.world, pilot, plan.sight,
        steps=plan.steps, seed=config.seed, epoch=int(state.epoch),
    )  # fmt: skip
    return Collected(batch, tally, time.perf_counter() - start)


def finish_epoch(
    config: TrainConfig, plan: Plan, improved: Improved, collected: Collected
) -> tuple[Any, Row]:
    """Finish the update; return the state after the epoch, and its row."""
    state, metrics = plan.learner.finish(improved)
    epoch, tally = int(state.epoch), collected.tally
    row: Row = {
        "epoch": epoch - 1,
        "steps": epoch * config.epoch_steps,
        "return": float(tally.returns.mean()),
        "return_std": float(tally.returns.std()),
        "cost": float(tally.costs.mean()),
        "cost_rate": float(tally.costs.mean() / plan.steps),
    }
    if plan.sight.saute is not None:
        row["budget_left"] = float((collected.batch.last_obs[:, -1] > 0).mean())
    metrics = jax.device_get(metrics) | tally.facts
    row |= {name: float(value) for name, value in sorted(metrics.items())}
    bad = [name for name, value in row.items() if not np.isfinite(value)]
    if bad:
        raise HipshieldError(
            f"Epoch {epoch - 1} of {config.name} gave {', '.join(bad)} that is not finite. The"
            " checkpoint of the epoch before is kept."
        )
    return state, row
