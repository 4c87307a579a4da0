"""Training speed against OmniSafe 0.5.0, and the share of the world's own speed that it keeps.

    .venv/bin/python benchmarks/learners.py --algo rcpo --task point-goal

Ours: some epochs of a real run, timed from the process's start of training, compilation included;
the figure for two million steps adds the first epoch to 99 times the median of the others. The
peer: one epoch of OmniSafe's own learner on the same layouts, in its side environment, taken right
after ours. Its class resets once an episode (its stock class resets twice, which would make it a
third slower). The world's own speed is that of 128 robots with random actions.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hipshield.lab.bench_worlds import measure
from hipshield.learning.config import TrainConfig
from hipshield.learning.train import train

SIDE = Path(__file__).parent / "side"
PEER_NAMES = {"rcpo": "RCPO", "ppo-lag": "PPOLag"}
STEPS = 2_000_000


def ours(task: str, algo: str, epochs: int) -> dict[str, float]:
    """Train for some epochs; return seconds of the first and of the others, and the speed."""
    config = TrainConfig(task=task, algo=algo, steps=epochs * 20_000)
    seconds: list[float] = []
    last = time.perf_counter()

    def note(row: dict[str, float]) -> None:
        nonlocal last
        seconds.append(time.perf_counter() - last)
        last = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        train(config, folder, show=note)
    first, others = seconds[0], float(np.median(seconds[1:]))
    whole = first + (STEPS / 20_000 - 1) * others
    return {"first_epoch": first, "epoch": others, "steps_per_second": STEPS / whole}


def peer(task: str, algo: str, steps: int) -> dict[str, float]:
    """Train with OmniSafe in its side environment; return its own figures."""
    build = [sys.executable, str(SIDE / "build.py"), "--omnisafe"]
    python = subprocess.run(build, capture_output=True, text=True, check=True).stdout.split()[-1]
    command = [
        *(python, str(SIDE / "omnisafe_speed.py"), "--algo", PEER_NAMES[algo], "--task", task),
        *("--steps", str(steps), "--json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--task", default="point-goal")
    parser.add_argument("--algo", default="rcpo", choices=list(PEER_NAMES))
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--peer-steps", type=int, default=20_000)
    args = parser.parse_args()
    mine = ours(args.task, args.algo, args.epochs)
    theirs = peer(args.task, args.algo, args.peer_steps)
    world = measure(args.task).steps_per_second
    figures = {
        "task": args.task,
        "algo": args.algo,
        **mine,
        "peer_steps_per_second": theirs["steps_per_second"],
        "times_peer": mine["steps_per_second"] / theirs["steps_per_second"],
        "world_steps_per_second": world,
        "share_of_world": mine["steps_per_second"] / world,
    }
    rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in figures.items()}
    print(json.dumps(rounded))


if __name__ == "__main__":
    main()
