"""Measure the speed of safety-gymnasium 1.0.0 on one task; runs in the side environment.

The tasks have the layouts of this library's level-1 tasks, so both libraries simulate the same
worlds. The environments are stepped without the wrappers that the package's `make` adds, which is
the fastest way to use it. One line of JSON is printed with `--json`:

    .venv-side/bin/python benchmarks/side/safety_gymnasium_speed.py \
        --task point-goal --steps 3000 --json
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import importlib.metadata
import inspect
import json
import platform
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

ROBOTS = ("point", "car")
HAZARDS = {"size": 0.2, "is_constrained": True}
EXTENTS = [-1.5, -1.5, 1.5, 1.5]

# What each level-1 task adds to the package's level-0 task of that name: the rectangle in which
# objects are placed (None: as in level 0) and the objects, by class name. Everything else (goal
# size 0.3 and keepout 0.305, four unconstrained buttons, the push box, circle radius 1.5, 500 steps
# for the circle) is already so in level 0.
LEVEL_1: dict[str, tuple[list[float] | None, dict[str, dict[str, Any]]]] = {
    "goal": (EXTENTS, {"Hazards": {"num": 6, "keepout": 0.18, **HAZARDS}}),
    "button": (EXTENTS, {"Hazards": {"num": 6, "keepout": 0.18, **HAZARDS}}),
    "push": (
        EXTENTS,
        {
            "Hazards": {"num": 2, "keepout": 0.4, **HAZARDS},
            "Pillars": {"num": 1, "is_constrained": False},
        },
    ),
    "circle": (
        None,
        {"Sigwalls": {"num": 4, "locate_factor": 1.125, "is_constrained": True}},
    ),
}
CHEETAH = "half-cheetah"
TASKS = (*(f"{robot}-{task}" for robot in ROBOTS for task in LEVEL_1), CHEETAH)
PACKAGES = ("safety-gymnasium", "gymnasium", "mujoco", "numpy")
WARM_UP_STEPS = 50


def _share_unhashable_defaults(cls: type) -> None:
    for name, annotation in inspect.get_annotations(cls).items():
        default = cls.__dict__.get(name)
        # Lists, dicts and sets were refused by Python 3.10 already; class variables and init-only
        # variables may not have a factory.
        if isinstance(default, list | dict | set) or "Var" in str(annotation):
            continue
        if type(default).__hash__ is None:
            setattr(cls, name, dataclasses.field(default_factory=lambda value=default: value))


@contextlib.contextmanager
def python_3_10_dataclasses() -> Iterator[None]:
    """Let dataclasses defined in this context have any unhashable default but list, dict and set.

    Since Python 3.11 `dataclass` takes every unhashable default for a mistake, and
    safety-gymnasium 1.0.0 uses NumPy arrays (colours, collision groups) as defaults, so importing
    it fails. Here such a default becomes a factory that returns the one shared object, which gives
    the instances the same values as Python 3.10 did.
    """
    original = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        _share_unhashable_defaults(cls)
        return original(cls, **options)

    dataclasses.dataclass = dataclass
    try:
        yield
    finally:
        dataclasses.dataclass = original


def level_1_class(task: str) -> type:
    """Return the package's level-0 class of a task, extended to this library's level 1.

    Args:
        task: The task's name without the robot, such as "goal".
    """
    base = getattr(importlib.import_module("safety_gymnasium.tasks"), f"{task.title()}Level0")
    geoms = importlib.import_module("safety_gymnasium.assets.geoms")
    extents, objects = LEVEL_1[task]

    class Level1(base):
        """The level-0 task with the objects of level 1."""

        def __init__(self, config: dict[str, Any]) -> None:
            super().__init__(config=config)
            if extents is not None:
                self.placements_conf.extents = extents
            for name, options in objects.items():
                self._add_geoms(getattr(geoms, name)(**options))

    return Level1


def make_environment(name: str) -> Any:
    """Build one environment, without wrappers.

    Args:
        name: A name out of `TASKS`.
    """
    with python_3_10_dataclasses():
        builder = importlib.import_module("safety_gymnasium.builder")
    if name == CHEETAH:
        velocity = "safety_gymnasium.tasks.safe_velocity.safety_half_cheetah_velocity_v1"
        return importlib.import_module(velocity).SafetyHalfCheetahVelocityEnv()
    robot, task = name.split("-")
    # The builder looks the class up by a name that it makes out of the task id.
    setattr(builder.tasks, f"Side{task.title()}Level1", level_1_class(task))
    task_id = f"Safety{robot.title()}Side{task.title()}1-v0"
    return builder.Builder(task_id, config={"agent_name": robot.title()})


def seconds_per_reset(environment: Any, resets: int, seed: int) -> float:
    """Return the mean time of a reset, the first one (which also builds the world) left out."""
    environment.reset(seed=seed)
    start = perf_counter()
    for index in range(resets):
        environment.reset(seed=seed + 1 + index)
    return (perf_counter() - start) / resets


def steps_per_second(environment: Any, steps: int, seed: int) -> float:
    """Return how many steps a second uniform random actions get, resets not counted."""
    numpy = importlib.import_module("numpy")
    space = environment.action_space
    shape = (WARM_UP_STEPS + steps, *space.shape)
    actions = numpy.random.default_rng(seed).uniform(space.low, space.high, shape)
    environment.reset(seed=seed)
    elapsed = 0.0
    for index, action in enumerate(actions.astype(space.dtype)):
        start = perf_counter()
        *_, terminated, truncated, _ = environment.step(action)
        seconds = perf_counter() - start
        if index >= WARM_UP_STEPS:
            elapsed += seconds
        if terminated or truncated:
            environment.reset()
    return steps / elapsed


def measure(name: str, steps: int, resets: int, seed: int) -> dict[str, Any]:
    """Measure one task.

    Args:
        name: A name out of `TASKS`.
        steps: How many steps to time.
        resets: How many resets to time.
        seed: Seed of the layouts and the actions.

    Returns:
        The results, ready for JSON.
    """
    environment = make_environment(name)
    versions = {package: importlib.metadata.version(package) for package in PACKAGES}
    return {
        "task": name,
        "seconds_per_reset": seconds_per_reset(environment, resets, seed),
        "steps_per_second": steps_per_second(environment, steps, seed),
        "steps": steps,
        "resets": resets,
        "seed": seed,
        "obs_dim": environment.observation_space.shape[0],
        "action_dim": environment.action_space.shape[0],
        "versions": {"python": platform.python_version(), **versions},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure the speed of safety-gymnasium 1.0.0.")
    parser.add_argument("--task", help="the task to measure; --list names them")
    parser.add_argument("--steps", type=int, default=3000, help="steps to time (default: 3000)")
    parser.add_argument("--resets", type=int, default=5, help="resets to time (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="seed of layouts and actions")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--list", action="store_true", help="list the tasks and exit")
    return parser


def _problem(options: argparse.Namespace) -> str | None:
    if options.task not in TASKS:
        return f"unknown task {options.task!r}; choose from {', '.join(TASKS)}"
    if options.steps < 1 or options.resets < 1:
        return "--steps and --resets must be at least 1"
    # NumPy's legacy generator, from which the package draws layouts, takes 32-bit seeds.
    if not 0 <= options.seed <= 2**32 - 1 - options.resets:
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
    if options.list:
        print("\n".join(TASKS))
        return 0
    if problem := _problem(options):
        print(f"error: {problem}", file=sys.stderr)
        return 2
    try:
        # The package prints warnings to the standard output, where only the result belongs.
        with contextlib.redirect_stdout(sys.stderr):
            result = measure(options.task, options.steps, options.resets, options.seed)
    except ModuleNotFoundError as error:
        print(f"error: {error}; use the Python that side/build.py prints", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(result))
    else:
        line = "{task}: {steps_per_second:.0f} steps/s, {seconds_per_reset:.6f} s/reset"
        print(line.format_map(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
