"""One page about all comparisons of predictors in a folder: ratios, adapting, and readouts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hipshield.files import write_whole
from hipshield.lab.tables import Row, read_table

_SPLITS = (("train", "in"), ("ood", "out"))


def write_summary(folder: Path) -> Path:
    """Write `README.md` from the tables below a folder (`TASK/predictors/*.csv`)."""
    tasks = sorted(p.parent for p in folder.glob("*/predictors/errors.csv"))
    found = {p.parent.name: p for p in tasks}
    notes = folder / "notes.md"  # what the figures mean, by hand
    parts = [
        "# How good the predictors are",
        "`hipshield compare-models --task TASK`: all fitted to the same episodes, judged on others,"
        " in and out of distribution (*in*, *out*). Errors are of the position in mm, for the"
        " half-cheetah of the forward velocity in m/s, after 1 and 20 steps without another look:"
        " mean (98 % are below).",
        _table(
            ["task", "split", "1 step", "20 steps", "÷ oracle MLP, 1", "20", "÷ MLP, 1", "20"],
            [row for task, path in found.items() for row in _errors(task, path)],
        ),
        "How fast the function encoder adapts: mean error after n transitions of a new robot, over"
        " that with b in hindsight (of the whole episode, the errors' own half included):",
        _table(
            ["task", "split", "steps ahead", *(f"n = {n}" for n in (1, 3, 10, 30, 100))],
            [row for task, path in found.items() for row in _adapting(task, path)],
        ),
        "What b tells of φ: R² of a linear readout, in / out of distribution. A parameter that"
        " moves a robot by less than 0.1 mm in 100 steps does not act (–):",
        _readouts(found),
    ]
    if notes.exists():
        parts.append(notes.read_text(encoding="utf-8"))
    path = folder / "README.md"
    write_whole(path, ("\n\n".join(parts).rstrip() + "\n").encode())
    return path


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _first(rows: Sequence[Row], split: str, start: str) -> Any:
    """Return the row of a split whose predictor's name begins so, or None."""
    return next((r for r in rows if r["split"] == split and r["predictor"].startswith(start)), None)


def _errors(task: str, path: Path) -> Iterator[list[str]]:
    rows = read_table(path / "errors.csv")
    scale = 1.0 if task.startswith("half-cheetah") else 1e3
    for split, word in _SPLITS:
        mine = _first(rows, split, "function encoder")
        cells = [task, word]
        cells += [f"{scale * mine[f'mean_{h}']:.3g} ({scale * mine[f'p98_{h}']:.3g})"
                  for h in (1, 20)]  # fmt: skip
        for rival in ("oracle mlp", "mlp"):
            theirs = _first(rows, split, rival)
            cells += [f"{mine[f'mean_{h}'] / theirs[f'mean_{h}']:.2f}" for h in (1, 20)]
        yield cells


def _adapting(task: str, path: Path) -> Iterator[list[str]]:
    rows = [r for r in read_table(path / "adapting.csv")
            if r["predictor"].startswith("function encoder")]  # fmt: skip
    for split, word in _SPLITS:
        by_count = {r["transitions"]: r for r in rows if r["split"] == split}
        for h in (1, 20):
            best = by_count["hindsight"][f"mean_{h}"]
            shares = [f"{by_count[n][f'mean_{h}'] / best:.2f}" for n in (1, 3, 10, 30, 100)]
            yield [task, word, str(h), *shares]


def _readouts(found: dict[str, Path]) -> str:
    """One table a set of parameters, because the half-cheetah has others."""
    tables: dict[tuple[str, ...], list[list[str]]] = {}
    for task, path in found.items():
        rows = [r for r in read_table(path / "readout.csv")
                if r["predictor"].startswith("function encoder")]  # fmt: skip
        names = tuple(r["parameter"] for r in rows if r["split"] == "train")
        score = {(r["split"], r["parameter"]): r for r in rows}
        cells = [task]
        for name in names:
            pair = [score[split, name] for split, _ in _SPLITS]
            words = " / ".join(f"{r['r2']:.2f}" for r in pair)
            cells.append(words if pair[0]["acts"] else "–")
        tables.setdefault(names, []).append(cells)
    return "\n\n".join(_table(["task", *names], rows) for names, rows in tables.items())
