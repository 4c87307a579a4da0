"""Comparing predictors on a task: the paper's appendix on the function encoder and its rivals.

Data of one policy, fitted in distribution, judged on episodes that nobody was fitted to: in
distribution, and with hidden parameters out of it. What comes out is a folder of tables (CSV) and
figures (PNG):

* `errors.csv`: mean and 98th percentile of the open-loop error by predictor, split and lead, and
  the l1 error of the next state;
* `adapting.csv`: the error by number of transitions of a new robot;
* `readout.csv`: R² of each hidden parameter, read linearly from b, and whether it acts at all;
* `curves.csv`: losses while fitting.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hipshield.lab.collect import Collection, collect_dataset
from hipshield.lab.fitting import Fitting, fit_states, read_states
from hipshield.lab.tables import write_table
from hipshield.models.accuracy import (
    final_contexts,
    measure_adapting,
    measure_errors,
    next_state_error,
    readout,
)
from hipshield.models.data import read_facts
from hipshield.models.episodes import States
from hipshield.models.fit import FitSettings
from hipshield.models.robots import motion_of
from hipshield.models.store import Model
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.world import World

LEADS = (1, 5, 10, 20, 40)
ACTS = 1e-4  # metres: a parameter that moves a robot less in 100 steps does not act

Say = Callable[[str], None]
Row = dict[str, Any]

PREDICTORS = (
    Fitting("function-encoder"),
    Fitting("transformer"),
    Fitting("ensemble", oracle=True),
    Fitting("mlp", oracle=True),
    Fitting("ensemble"),
    Fitting("mlp"),
)
SIZES = tuple(
    Fitting(kind, bases=k) for kind in ("function-encoder", "transformer") for k in (3, 6, 9, 12)
)
STUDIES = {"predictors": PREDICTORS, "sizes": SIZES}


@dataclass(frozen=True)
class Comparison:
    """What to compare, and on what.

    Attributes:
        task: name of the task.
        predictors: what to fit.
        collection: the training data; held-out data are collected likewise with other seeds.
        settings: of every fit.
        tested: held-out episodes of each split.
    """

    task: str = "point-goal"
    predictors: tuple[Fitting, ...] = PREDICTORS
    collection: Collection = field(default_factory=Collection)
    settings: FitSettings = field(default_factory=FitSettings)
    tested: int = 100


class Data(NamedTuple):
    """States to fit on, and held-out ones by split."""

    train: States
    tests: dict[str, States]


def label(wanted: Fitting) -> str:
    """Return how a predictor is called in tables and figures."""
    size = "" if wanted.bases is None else f" ({wanted.bases})"
    return ("oracle " if wanted.oracle else "") + wanted.kind.replace("-", " ") + size


def gather(wanted: Comparison, data: Path, runs: Path, say: Say) -> Data:
    """Read the data sets, collecting those that are missing."""
    motion = motion_of(find_task(wanted.task))

    def states(collection: Collection) -> States:
        if not (data / collection.name).exists():
            begin = time.perf_counter()
            collect_dataset(collection, data, runs)
            spent = time.perf_counter() - begin
            say(f"collected {collection.episodes} episodes in {spent:.0f} s: {collection.name}")
        facts = read_facts(data / collection.name)
        if facts.episodes != collection.episodes:
            say(f"'{data / collection.name}' has {facts.episodes} episodes: taken as they are")
        return read_states(data / collection.name, wanted.task, motion)[1]

    base = replace(wanted.collection, task=wanted.task)
    tests = {
        split: states(replace(base, split=split, episodes=wanted.tested, seed=base.seed + 1))
        for split in ("train", "ood")
    }
    return Data(states(base), tests)


def compare(wanted: Comparison, data: Data, out: Path, say: Say) -> list[Row]:
    """Fit and measure every predictor; write the tables; return the rows of errors."""
    motion = motion_of(find_task(wanted.task))
    tables: dict[str, list[Row]] = {"errors": [], "adapting": [], "readout": [], "curves": []}
    for which in wanted.predictors:
        begin = time.perf_counter()
        model = fit_states(which, motion, data.train, wanted.settings)
        seconds = time.perf_counter() - begin
        who = {"task": wanted.task, "predictor": label(which)}
        for split, states in data.tests.items():
            row = _errors(model, states)
            say(f"{who['predictor']}, {split}: " + _words(row, motion.unit))
            facts = {"split": split, "parameters": model.predictor.count, "seconds": seconds}
            tables["errors"].append(who | facts | row)
            tables["adapting"] += [who | {"split": split} | r for r in _adapting(model, states)]
        tables["readout"] += [who | r for r in _readouts(model, data, wanted.task)]
        tables["curves"] += [
            who | dict(zip(("iteration", "fitting", "validation"), point, strict=True))
            for point in model.facts["curve"]
        ]
    for name, rows in tables.items():
        if rows:
            write_table(out / f"{name}.csv", rows)
    return tables["errors"]


def _errors(model: Model, states: States) -> Row:
    errors = measure_errors(model.predictor, model.params, states, LEADS)
    row: Row = {f"mean_{h}": e for h, e in errors.mean().items()}
    row |= {f"p98_{h}": e for h, e in errors.quantile(0.98).items()}
    return row | {"next_state_l1": float(next_state_error(model.predictor, model.params, states))}


def _words(row: Row, unit: str) -> str:
    scale, name = (1e3, "mm") if unit == "m" else (1.0, unit)
    return ", ".join(
        f"{h} steps {scale * row[f'mean_{h}']:.3g} {name} (98 %: {scale * row[f'p98_{h}']:.3g})"
        for h in (1, 20)
    )


def _adapting(model: Model, states: States) -> Iterable[Row]:
    if not model.predictor.context:
        return
    curve = measure_adapting(model.predictor, model.params, states)
    for n, errors in curve.items():
        yield {"transitions": n} | {f"mean_{h}": e for h, e in errors.items()}


def _readouts(model: Model, data: Data, task: str) -> Iterable[Row]:
    """R² of each hidden parameter from b; not for oracles, whose b is φ itself."""
    predictor = model.predictor
    if not predictor.context or getattr(predictor, "phi", 0) > 0:
        return
    b = final_contexts(predictor, model.params, data.train)
    moved = acting(task)
    for split, states in data.tests.items():
        new = final_contexts(predictor, model.params, states)
        scores = readout(b, data.train.phi, new, states.phi)
        for (name, effect), score in zip(moved.items(), scores.tolist(), strict=True):
            yield {"split": split, "parameter": name, "effect": effect, "acts": effect > ACTS,
                   "r2": score}  # fmt: skip


def acting(task_name: str, robots: int = 16, steps: int = 100) -> dict[str, float]:
    """Return how far each hidden parameter alone moves a robot: what no data set can exceed.

    Twins start alike and do alike; one has the parameter at 0.5, the other at 1.5. The effect is
    the mean distance of their e(s) after `steps` steps, in the unit of e(s).
    """
    task = find_task(task_name)
    count = len(task.hidden)
    rng = np.random.default_rng(0)
    world = World(task, robots, "fixed")
    actions = np.repeat(rng.uniform(-1, 1, (-(-steps // 10), robots, world.actions)), 10, axis=0)
    effects = {}
    for i, parameter in enumerate(task.hidden):
        ends = []
        for value in (0.5, 1.5):
            phi = np.ones(count)
            phi[i] = value
            step = world.reset(seed=0, hidden=phi)
            for action in actions[:steps]:
                step = world.step(action)
            ends.append(step.feature)
        effects[parameter.name] = float(np.linalg.norm(ends[1] - ends[0], axis=1).mean())
    return effects


def ratios(rows: Sequence[Row], ours: str = "function encoder") -> list[Row]:
    """Return the function encoder's mean error over its rivals', by task and split."""
    found = {(r["task"], r["split"], r["predictor"]): r for r in rows}
    table = []
    for (task, split, predictor), row in found.items():
        mine = found.get((task, split, ours))
        if mine is None or predictor == ours:
            continue
        shares = {f"ratio_{h}": mine[f"mean_{h}"] / row[f"mean_{h}"] for h in (1, 20)}
        table.append({"task": task, "split": split, "rival": predictor, **shares})
    return table
