"""How well the learners learn: trains what is missing, and writes the table beside the paper's.

    .venv/bin/python benchmarks/learning_study.py                 # train, then write the table
    .venv/bin/python benchmarks/learning_study.py --table-only    # from the runs there are

Runs go to `runs/`, one process a core with one thread each; finished ones are skipped, broken ones
resumed. The summary, one row a run with the mean return and cost rate of its last 20 epochs, is
`results/learning/runs.csv`; the table for people is `results/learning/README.md`.
"""

import argparse
import csv
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "learning"
LAST = 20  # epochs that the figures are means of
TASKS = ("point-goal", "car-goal", "point-circle", "point-button")
STUDY = [(task, algo, seed) for seed in range(3) for task in TASKS for algo in ("rcpo", "ppo-lag")]
OTHERS = [("point-goal", a, 0) for a in ("cpo", "cup", "ppo-saute", "trpo-saute", "usl")]
STEPS = 2_000_000
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

# The paper's own figures (Appendix E): mean ± standard deviation of return and of cost rate in %.
PAPER = {
    ("point-goal", "rcpo"): (16.35, 1.14, 2.50, 0.02),
    ("point-button", "rcpo"): (8.97, 0.56, 1.69, 0.23),
    ("point-circle", "rcpo"): (30.78, 5.55, 2.47, 0.51),
    ("car-goal", "rcpo"): (15.64, 2.27, 2.23, 0.33),
    ("point-goal", "ppo-lag"): (18.20, 0.78, 3.35, 0.20),
    ("point-button", "ppo-lag"): (10.83, 1.56, 2.94, 0.22),
    ("point-circle", "ppo-lag"): (30.90, 3.52, 13.38, 6.74),
    ("car-goal", "ppo-lag"): (15.85, 1.01, 3.36, 0.46),
}


def command(task: str, algo: str, seed: int, runs: Path) -> list[str]:
    """Return the command that trains one run, or goes on with it."""
    return [
        *(sys.executable, "-m", "hipshield.cli", "train", "--task", task, "--algo", algo),
        *("--context", "oracle", "--seed", str(seed), "--steps", str(STEPS)),
        *("--out", str(runs), "--resume", "--threads", "1"),
    ]


def train_all(runs: Path, jobs: Sequence[tuple[str, str, int]], workers: int) -> None:
    """Train what is not finished, some runs at a time."""
    environment = os.environ | {"XLA_FLAGS": ONE_THREAD, "OMP_NUM_THREADS": "1"}
    waiting, going = list(jobs), []
    while waiting or going:
        while waiting and len(going) < workers:
            job = waiting.pop(0)
            if summary(runs, *job) is None:
                done = subprocess.Popen(
                    command(*job, runs), env=environment, stdout=subprocess.DEVNULL
                )
                going.append((job, done))
                print("training", *job, flush=True)
        ended = [pair for pair in going if pair[1].poll() is not None]
        for job, process in ended:
            going.remove((job, process))
            if process.returncode:
                print("failed:", *job, file=sys.stderr)
        if not ended:
            time.sleep(1)


def summary(runs: Path, task: str, algo: str, seed: int) -> dict[str, object] | None:
    """Return one run's row, or None when it is not finished."""
    path = runs / f"{task}_{algo}_oracle_s{seed}" / "progress.csv"
    if not path.exists():
        return None
    rows = list(csv.DictReader(path.open(encoding="utf-8")))
    if not rows or int(rows[-1]["steps"]) < STEPS:
        return None
    figures = {"return": "return", "cost_rate_pct": "cost_rate"}
    row: dict[str, object] = {"task": task, "algo": algo, "seed": seed, "steps": STEPS}
    for name, column in figures.items():
        value = np.mean([float(r[column]) for r in rows[-LAST:]])
        row[name] = round(float(value) * (100 if column == "cost_rate" else 1), 3)
    whole = np.mean([float(r["cost_rate"]) for r in rows])
    row["cost_rate_whole_training_pct"] = round(100 * float(whole), 3)
    return row


def verdict(ours: np.ndarray, mean: float, std: float, better: int) -> str:
    """Say where our mean lies: within the paper's mean ± 3 s.d., better, or outside."""
    gap = float(ours.mean()) - mean
    if abs(gap) <= 3 * std:
        return "within"
    return "better" if gap * better > 0 else f"outside by {abs(gap) / std:.1f} s.d."


def table(rows: Sequence[dict[str, object]]) -> str:
    """Return the tables as Markdown."""
    lines = [
        "# How well the learners learn",
        "",
        "`.venv/bin/python benchmarks/learning_study.py`: oracle context, 2 million steps, mean of"
        f" the last {LAST} epochs; ± is the standard deviation over seeds. The paper's figures are"
        " those of its Appendix E; *within*: inside the paper's mean ± 3 of its s.d.",
        "",
        "| task | method | seeds | return | paper | | cost rate, % | paper | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for key, (mean, std, cost, cost_std) in PAPER.items():
        mine = [r for r in rows if (r["task"], r["algo"]) == key]
        if not mine:
            continue
        got = np.array([[float(str(r["return"])), float(str(r["cost_rate_pct"]))] for r in mine])
        spread = got.std(0, ddof=1) if len(got) > 1 else np.zeros(2)
        lines.append(
            f"| {key[0]} | {key[1]} | {len(got)} | {got[:, 0].mean():.2f} ± {spread[0]:.2f} |"
            f" {mean} ± {std} | {verdict(got[:, 0], mean, std, 1)} |"
            f" {got[:, 1].mean():.2f} ± {spread[1]:.2f} | {cost} ± {cost_std} |"
            f" {verdict(got[:, 1], cost, cost_std, -1)} |"
        )
    others = [r for r in rows if (r["task"], r["algo"]) not in PAPER]
    if others:
        lines += ["", "The other rows of the catalogue, one seed each:", ""]
        lines += ["| task | method | return | cost rate, % | cost rate of the whole training, % |"]
        lines += ["|---|---|---|---|---|"]
        for r in others:
            whole = r["cost_rate_whole_training_pct"]
            cells = (r["task"], r["algo"], r["return"], r["cost_rate_pct"], whole)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--table-only", action="store_true")
    args = parser.parse_args()
    if not args.table_only:
        train_all(args.runs, [*STUDY, *OTHERS], args.workers)
    found = [summary(args.runs, *job) for job in [*STUDY, *OTHERS]]
    rows = [row for row in found if row is not None]
    if not rows:
        sys.exit(f"There are no finished runs in '{args.runs}'.")
    RESULTS.mkdir(parents=True, exist_ok=True)
    with open(RESULTS / "runs.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    notes = RESULTS / "notes.md"  # what the figures mean, by hand
    said = "\n" + notes.read_text(encoding="utf-8") if notes.exists() else ""
    (RESULTS / "README.md").write_text(table(rows) + said, encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
