"""Measure the training speed of OmniSafe 0.5.0 on one task; runs in its side environment.

The tasks have the layouts of this library's level-1 tasks, 1000 steps an episode, and are trained
on by one environment with OmniSafe's published defaults, except for what `settings` names. The
times are those that OmniSafe logs: rollouts (with the resets in them), updates, and all of it.
One line of JSON is printed with `--json`:

    .venv-omnisafe/bin/python benchmarks/side/omnisafe_speed.py \
        --algo RCPO --task point-goal --steps 40000 --json
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from safety_gymnasium_speed import PACKAGES, python_3_10_dataclasses

ALGORITHMS = ("RCPO", "PPOLag")
TASKS = ("point-goal", "car-goal")
EPISODE_STEPS = 1000


def settings(options: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Return what differs from OmniSafe's defaults.

    Args:
        options: The command line.
        folder: Where OmniSafe shall write its logs.
    """
    return {
        "seed": options.seed,
        "train_cfgs": {
            "device": "cpu",
            "torch_threads": options.threads,
            "vector_env_nums": 1,
            "total_steps": options.steps,
        },
        "algo_cfgs": {"steps_per_epoch": options.epoch_steps},
        "lagrange_cfgs": {"cost_limit": 0.0},
        # PPOLag's learning rate falls to zero over the run. The first epochs of the default ten
        # million steps, which are measured, have nearly all of it, but a short run would not.
        "model_cfgs": {"linear_lr_decay": False},
        "logger_cfgs": {"use_wandb": False, "use_tensorboard": False, "log_dir": folder},
    }


def train(options: argparse.Namespace) -> list[dict[str, float]]:
    """Train, and return the rows of OmniSafe's log, one an epoch.

    Args:
        options: The command line.
    """
    # OmniSafe imports wandb whether it is used or not; it shall not call home.
    os.environ.update(WANDB_MODE="disabled", WANDB_ERROR_REPORTING="false")
    with python_3_10_dataclasses():
        omnisafe = importlib.import_module("omnisafe")
        importlib.import_module("omnisafe_task")
    with tempfile.TemporaryDirectory() as folder:
        agent = omnisafe.Agent(options.algo, options.task, custom_cfgs=settings(options, folder))
        agent.learn()
        (log,) = Path(folder).rglob("progress.csv")
        with log.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    return [{key: float(value) for key, value in row.items()} for row in rows]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure one algorithm on one task.

    Args:
        options: The command line.

    Returns:
        The results, ready for JSON.
    """
    rows = train(options)
    resets = importlib.import_module("omnisafe_task").SideTask.seconds_of_resets
    seconds = rows[-1]["Time/Total"]
    packages = ("omnisafe", "torch", *PACKAGES)
    versions = {package: importlib.metadata.version(package) for package in packages}
    return {
        "algo": options.algo,
        "task": options.task,
        "steps": options.steps,
        "seconds": seconds,
        "steps_per_second": options.steps / seconds,
        "seconds_rollout": sum(row["Time/Rollout"] for row in rows),
        "seconds_update": sum(row["Time/Update"] for row in rows),
        # The first reset, which seeds the task, comes before training begins.
        "seconds_reset": sum(resets[1:]),
        "resets": len(resets) - 1,
        "epoch_steps": options.epoch_steps,
        # PPOLag ends an update early when the policy has changed enough.
        "update_passes": [int(row["Train/StopIter"]) for row in rows],
        "threads": options.threads,
        "seed": options.seed,
        "versions": {"python": platform.python_version(), **versions},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure the training speed of OmniSafe 0.5.0.")
    parser.add_argument("--algo", help=f"the algorithm: {' or '.join(ALGORITHMS)}")
    parser.add_argument("--task", help=f"the task: {' or '.join(TASKS)}")
    parser.add_argument("--steps", type=int, default=40000, help="steps to train (default: 40000)")
    parser.add_argument(
        "--epoch-steps", type=int, default=20000, help="steps between updates (default: 20000)"
    )
    # The networks are so small that a second thread made no difference in alternating runs.
    parser.add_argument("--threads", type=int, default=1, help="PyTorch's threads (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of layouts and networks")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser


def _problem(options: argparse.Namespace) -> str | None:
    if options.algo not in ALGORITHMS:
        return f"unknown algorithm {options.algo!r}; choose from {', '.join(ALGORITHMS)}"
    if options.task not in TASKS:
        return f"unknown task {options.task!r}; choose from {', '.join(TASKS)}"
    # OmniSafe needs the cost of a whole episode for its multiplier, and drops what is left over.
    if options.epoch_steps < 1 or options.epoch_steps % EPISODE_STEPS:
        return f"--epoch-steps must be a multiple of the {EPISODE_STEPS} steps of an episode"
    if options.steps < 1 or options.steps % options.epoch_steps:
        return "--steps must be a multiple of --epoch-steps"
    if options.threads < 1:
        return "--threads must be at least 1"
    # NumPy's legacy generator takes 32-bit seeds.
    if not 0 <= options.seed < 2**32:
        return "--seed must be a 32-bit number that is not negative"
    return None


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The command line without the program's name; the process's own by default.

    Returns:
        The exit code: 0, 1 when the package is not installed, 2 for a wrong command line.
    """
    options = _parser().parse_args(arguments)
    if problem := _problem(options):
        print(f"error: {problem}", file=sys.stderr)
        return 2
    try:
        # The package prints its progress to the standard output, where only the result belongs.
        with contextlib.redirect_stdout(sys.stderr):
            result = measure(options)
    except ModuleNotFoundError as error:
        print(
            f"error: {error}; use the Python that side/build.py --omnisafe prints", file=sys.stderr
        )
        return 1
    if options.json:
        print(json.dumps(result))
    else:
        line = "{algo} on {task}: {steps_per_second:.0f} steps/s"
        print(line.format_map(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
