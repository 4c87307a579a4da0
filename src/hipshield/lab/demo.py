"""The demonstration: policies in several worlds whose physics nobody tells them.

A random and a scripted policy run in worlds of every kind, many robots at once, in distribution
and out of it; then one episode each of a few tasks becomes a video and a picture.
"""

import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from hipshield.lab.watch import Film, watch
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.scripted import find_policy
from hipshield.worlds.world import World

ROLLED = ("point-goal", "car-goal", "point-button", "point-circle", "half-cheetah-velocity")
WATCHED = ("point-goal", "car-button")
ROBOTS = 32


def demo(out: Path) -> None:
    """Roll, film and say where everything is."""
    console = Console()
    table = Table(title=f"{ROBOTS} robots each, hidden physics drawn anew for every one")
    for column in ("task", "policy", "physics", "return", "cost rate", "steps/s"):
        words = column in ("task", "policy", "physics")
        table.add_column(column, justify="left" if words else "right", no_wrap=True)
    for name in ROLLED:
        for policy in ("random", "scripted"):
            for split in ("train", "ood"):
                table.add_row(name, policy, split, *_roll(name, policy, split))
    console.print(table)
    for name in WATCHED:
        path = out / f"{name}.mp4"
        world = World(find_task(name), split="ood")
        watch(world, find_policy("scripted"), path, Film(seed=1, steps=400))
        console.print(f"video: {path}   picture: {path.with_suffix('.png')}")


def _roll(name: str, policy_name: str, split: str) -> tuple[str, str, str]:
    """Run a batch for one episode; return return, cost rate and speed as text."""
    task = find_task(name)
    world, policy = World(task, ROBOTS, split), find_policy(policy_name)
    world.reset(seed=0)
    world.step(policy(world))  # compiles, so that the speed shown is the speed one gets
    step = world.reset(seed=0)
    total, cost = np.zeros(ROBOTS), np.zeros(ROBOTS)
    start = time.perf_counter()
    for _ in range(task.episode_steps):
        step = world.step(policy(world))
        total += step.reward
        cost += step.cost
    speed = ROBOTS * task.episode_steps / (time.perf_counter() - start)
    rate = 100 * cost.mean() / task.episode_steps
    return f"{total.mean():.1f} ± {total.std():.0f}", f"{rate:.2f} %", f"{speed:,.0f}"
