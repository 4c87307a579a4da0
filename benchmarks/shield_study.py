"""What the shields do to trained policies: cost rate and return without and with them.

    .venv/bin/python benchmarks/shield_study.py --runs runs --models models

The policies are the RCPO runs of `learning_study.py` (oracle context), the models function encoders
from `hipshield fit`, at `MODELS/TASK_function-encoder.safetensors`. Every variant runs the same
episodes, in distribution (level 1) and out of it (level 2, hidden parameters outside of training's
ranges). `results/shield/episodes.csv` has a row a run and variant, `results/shield/README.md` the
table. Steps cost at most δ + ε̄ (1 − δ) by the paper's theorem: that is checked for every row.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hipshield.lab.tables import write_table
from hipshield.learning.evaluate import evaluate
from hipshield.learning.guard import make_guard
from hipshield.learning.run import Run
from hipshield.models.store import Model, load_model
from hipshield.worlds.catalogue import find_task

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "shield"
TASKS = ("point-goal", "point-button", "point-circle", "car-goal")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("none", {}),
    "paper": ("paper", {}),
    "plan": ("plan", {}),
    "plan, doubt 1": ("plan", {"doubt": 1.0}),
}
SPLITS = (("train", 1), ("ood", 2))
DELTA = 0.02


def rows_of(run: Run, model: Model, episodes: int) -> Iterator[dict[str, Any]]:
    """Evaluate one run in every split and with every variant; yield a row each."""
    policy = run.policy
    for split, level in SPLITS:
        task = find_task(run.config.task, level)
        for name, (preset, changes) in VARIANTS.items():
            guard = make_guard(preset, model, **changes)
            sight = policy.sight._replace(model=model if guard else None)
            begin = time.perf_counter()
            tally = evaluate(policy.act, sight, task, split, episodes, guard)
            rate = float(tally.costs.mean() / task.episode_steps)
            facts = {k: float(v) for k, v in tally.facts.items()}
            bound = DELTA + facts.get("empty", 1.0) * (1 - DELTA)
            yield {
                "task": run.config.task,
                "seed": run.config.seed,
                "split": split,
                "shield": name,
                "episodes": episodes,
                "return": float(tally.returns.mean()),
                "cost_rate_pct": 100 * rate,
                "free_of_cost_pct": 100 * float((tally.costs == 0).mean()),
                **{f"{k}_pct": 100 * v for k, v in facts.items()},
                "bound_pct": 100 * bound,
                "within_bound": bool(rate <= bound),
                "seconds": time.perf_counter() - begin,
            }


def table(rows: list[dict[str, Any]]) -> str:
    """Return the means over seeds as Markdown."""
    columns = ("return", "cost_rate_pct", "free_of_cost_pct", "triggered_pct", "intervened_pct",
               "empty_pct", "bound_pct")  # fmt: skip
    lines = [
        "# What the shields do to trained policies",
        "",
        "`.venv/bin/python benchmarks/shield_study.py`: RCPO (oracle context, 2 million steps"
        " without a shield), then the same episodes without and with one; means over seeds. *in*:"
        " as in training; *out*: level 2, hidden parameters out of distribution. Shares are of"
        " steps, but *free* of episodes. *bound*: δ + ε̄ (1 − δ), with ε̄ the share *empty*.",
        "",
        "| task | split | shield | seeds | return | cost rate, % | free, % | triggered | intervened"
        " | empty | bound |",
        "|" + "---|" * 11,
    ]
    keys = dict.fromkeys((r["task"], r["split"], r["shield"]) for r in rows)
    for task, split, shield in keys:
        mine = [r for r in rows if (r["task"], r["split"], r["shield"]) == (task, split, shield)]
        means = {c: float(np.mean([r[c] for r in mine])) for c in columns if c in mine[0]}
        cells = [f"{means[c]:.3g}" if c in means else "" for c in columns]
        if shield == "none":
            cells[-1] = ""
        word = {"train": "in", "ood": "out"}[split]
        lines.append("| " + " | ".join([task, word, shield, str(len(mine)), *cells]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Evaluate and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    parser.add_argument("--models", type=Path, default=ROOT / "models")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for task in args.tasks:
        model = load_model(args.models / f"{task}_function-encoder.safetensors")
        for seed in range(args.seeds):
            run = Run.load(args.runs / f"{task}_rcpo_oracle_s{seed}")
            for row in rows_of(run, model, args.episodes):
                rows.append(row)
                words = (row["task"], row["seed"], row["split"], row["shield"])
                print(*words, f"return {row['return']:.2f}, cost {row['cost_rate_pct']:.3f} %",
                      f"in {row['seconds']:.0f} s", flush=True)  # fmt: skip
                write_table(RESULTS / "episodes.csv", rows)
    notes = RESULTS / "notes.md"
    said = "\n" + notes.read_text(encoding="utf-8") if notes.exists() else ""
    (RESULTS / "README.md").write_text(table(rows) + said, encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
