"""How fast the worlds step, against MuJoCo's own limit and against Safety-Gymnasium.

The machine's speed wanders, so every figure is a ratio: ours and the limit take turns in short
rounds within one run, and their medians are compared. The limit is `mj_step` alone, called on
all cores for the same models (the same hidden parameters and layouts) with the same actions.
Both sides hold each action for `HOLD` steps, so that the limit's loop, which is Python, makes
few calls and costs it almost nothing.
"""

import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from hipshield.worlds.catalogue import TASK_NAMES, find_task
from hipshield.worlds.physics import check_threads
from hipshield.worlds.world import World

HOLD = 5
ROUNDS = 7
ROUND_SECONDS = 0.4
PEER_STEPS = {"half-cheetah-velocity": 30_000}
PEER_NAMES = {"half-cheetah-velocity": "half-cheetah"}


@dataclass(frozen=True)
class Speed:
    """One task's figures. Shares and ratios are dimensionless, speeds environment steps a second.

    Attributes:
        steps_per_second: the batch's throughput, resets not counted.
        mujoco_limit: environment steps a second that `mj_step` alone would allow.
        share_of_limit: the first over the second.
        reset_milliseconds: of one robot, within a reset of the whole batch.
        reset_share: time of resets over time of the steps of the episodes they begin.
        single_steps_per_second: of one Gymnasium environment of one robot.
        peer: the same figures of one Safety-Gymnasium environment, or None.
        times_peer: whole episodes a second, resets counted on both sides: ours over the peer's.
        times_peer_steps: the same without resets.
    """

    task: str
    robots: int
    threads: int
    steps_per_second: float
    mujoco_limit: float
    share_of_limit: float
    reset_milliseconds: float
    reset_share: float
    single_steps_per_second: float
    peer: dict[str, Any] | None = None
    times_peer: float | None = None
    times_peer_steps: float | None = None

    def line(self) -> str:
        """Return the figures as one line of JSON, rounded to four digits."""
        return json.dumps({k: _rounded(v) for k, v in asdict(self).items()})


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _timed_steps(world: World, actions: np.ndarray, seconds: float) -> float:
    """Step for a while; return environment steps a second of the whole batch."""
    start, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - start) < seconds:
        for _ in range(HOLD):
            world.step(actions[count % len(actions)])
        count += 1
    return count * HOLD * world.robots / spent


class _Limit:
    """`mj_step` on every core, over copies of a world's own models."""

    def __init__(self, world: World, threads: int) -> None:
        self.models = world.physics.models(range(world.robots))
        self.data = [mujoco.MjData(m) for m in self.models]
        for i, data in enumerate(self.data):
            data.qpos[:] = world.physics.state["qpos"][i]
            data.qvel[:] = world.physics.state["qvel"][i]
        self.substeps = world.physics.machine.substeps
        self.parts = np.array_split(np.arange(world.robots), threads)

    def timed(self, actions: np.ndarray, seconds: float) -> float:
        """Step for a while; return environment steps a second of all cores together."""
        counts = [0] * len(self.parts)
        start = time.perf_counter()

        def work(part: int) -> None:
            turn = 0
            while time.perf_counter() - start < seconds:
                for i in self.parts[part]:
                    self.data[i].ctrl[:] = actions[turn % len(actions), i]
                    mujoco.mj_step(self.models[i], self.data[i], HOLD * self.substeps)
                    counts[part] += HOLD
                turn += 1

        threads = [threading.Thread(target=work, args=(p,)) for p in range(len(self.parts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.perf_counter() - start)


def measure(name: str, robots: int = 128, threads: int | None = None) -> Speed:
    """Measure one task, without the peer."""
    threads = check_threads(threads)
    world = World(find_task(name), robots, threads=threads)
    world.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (64, robots, world.actions))
    _timed_steps(world, actions, ROUND_SECONDS)  # compiles, and lets the robots spread out
    limit = _Limit(world, threads)
    rounds = [
        (_timed_steps(world, actions, ROUND_SECONDS), limit.timed(actions, ROUND_SECONDS))
        for _ in range(ROUNDS)
    ]
    ours, theirs = np.median(np.array(rounds), axis=0)
    reset = _reset_seconds(world)
    steps = world.task.episode_steps
    return Speed(
        task=name,
        robots=robots,
        threads=threads,
        steps_per_second=float(ours),
        mujoco_limit=float(theirs),
        share_of_limit=float(ours / theirs),
        reset_milliseconds=1e3 * reset,
        reset_share=float(reset * ours / steps),
        single_steps_per_second=_single_speed(name),
    )


def _reset_seconds(world: World) -> float:
    """Return the time of a reset of the whole batch, per robot."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        world.reset()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) / world.robots


def _single_speed(name: str) -> float:
    world = World(find_task(name), threads=1)
    world.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (64, 1, world.actions))
    _timed_steps(world, actions, ROUND_SECONDS)
    return _timed_steps(world, actions, ROUND_SECONDS)


def with_peer(speed: Speed, python: Path, script: Path) -> Speed:
    """Measure the same task in Safety-Gymnasium's side environment, and add the ratios."""
    name = PEER_NAMES.get(speed.task, speed.task)
    steps = PEER_STEPS.get(speed.task, 3000)
    command = [str(python), str(script), "--task", name, "--steps", str(steps), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peer = json.loads(done.stdout.strip().splitlines()[-1])
    length = find_task(speed.task).episode_steps
    peer_episode = length / peer["steps_per_second"] + peer["seconds_per_reset"]
    our_episode = length / speed.steps_per_second + speed.reset_milliseconds / 1e3
    peer["steps_per_second_with_resets"] = length / peer_episode
    figures = asdict(speed) | {
        "peer": {k: _rounded(v) for k, v in peer.items()},
        "times_peer": peer_episode / our_episode,
        "times_peer_steps": speed.steps_per_second / peer["steps_per_second"],
    }
    return Speed(**figures)


def task_list(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tasks to measure: those named, checked, or all."""
    return tuple(find_task(n).name for n in names) or TASK_NAMES


def peer_python(folder: Path) -> Path | None:
    """Return the Python of the peer's side environment, building it if needed, or None."""
    build = folder / "build.py"
    if not build.exists():
        return None
    done = subprocess.run([sys.executable, str(build)], capture_output=True, text=True)
    if done.returncode:
        print(f"no comparison with the peer: {done.stderr.strip()}", file=sys.stderr)
        return None
    return Path(done.stdout.strip().splitlines()[-1])


def report(
    tasks: tuple[str, ...], robots: int, threads: int | None, *, as_json: bool, peer: Path
) -> None:
    """Measure tasks one after another and print each as soon as it is known."""
    python = peer_python(peer)
    if not as_json:
        print(_TABLE_HEAD)
    for name in task_list(tasks):
        speed = measure(name, robots, threads)
        if python is not None:
            speed = with_peer(speed, python, peer / "safety_gymnasium_speed.py")
        print(speed.line() if as_json else _table_row(speed), flush=True)


_TABLE_HEAD = """\
| task | steps/s | MuJoCo's limit | share | reset, of an episode | one env | × peer | × peer, no resets |
|---|---|---|---|---|---|---|---|"""  # noqa: E501


def _table_row(speed: Speed) -> str:
    def times(value: float | None) -> str:
        return "–" if value is None else f"{value:.3g}"

    return (
        f"| {speed.task} | {speed.steps_per_second:,.0f} | {speed.mujoco_limit:,.0f} |"
        f" {100 * speed.share_of_limit:.0f} % | {100 * speed.reset_share:.2f} % |"
        f" {speed.single_steps_per_second:,.0f} | {times(speed.times_peer)} |"
        f" {times(speed.times_peer_steps)} |"
    )
