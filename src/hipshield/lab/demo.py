"""The demonstration: robots whose physics was changed behind their backs, and a shield for one.

First a random and a scripted policy run in worlds of every kind, many robots at once, in
distribution and out of it. Then the whole way is gone once, at a small budget: record episodes,
fit a function encoder to them, train a policy, and let it drive robots with physics that it never
met, without and with a shield. One episode of each becomes a video and a picture.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from hipshield.lab.collect import Collection, collect_dataset
from hipshield.lab.fitting import Fitting, fit_to_file
from hipshield.lab.watch import Film, watch
from hipshield.learning.config import TrainConfig
from hipshield.learning.driver import Driver
from hipshield.learning.evaluate import evaluate
from hipshield.learning.guard import make_guard
from hipshield.learning.run import Run
from hipshield.learning.train import train
from hipshield.models.fit import FitSettings
from hipshield.models.store import Model
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.scripted import find_policy
from hipshield.worlds.world import World

ROLLED = ("point-goal", "car-goal", "point-button", "point-circle", "half-cheetah-velocity")
WATCHED = ("point-goal", "car-button")
ROBOTS = 32
SHIELDED = "point-goal"
SEED = 3  # of the episode that is filmed
EPISODES = Collection(task=SHIELDED, policy="random", episodes=200, explore=1.0)
RUN = TrainConfig(task=SHIELDED, algo="rcpo", steps=400_000)
VARIANTS = {"none": "none", "as in the paper": "paper", "plans": "plan"}


def demo(out: Path) -> None:
    """Roll, learn, shield, film, and say where everything is."""
    console = Console()
    _tour(out, console)
    model, run = _learn(out, console)
    _compare(out, model, run, console)


def _learn(out: Path, console: Console) -> tuple[Model, Run]:
    """Record, fit and train; what an earlier demonstration left is used again."""
    console.print(f"\n{SHIELDED}: recording {EPISODES.episodes} episodes of random manoeuvres")
    if not (out / "data" / EPISODES.name).exists():
        collect_dataset(EPISODES, out / "data", out / "runs")
    console.print("fitting a function encoder: which robot is this?")
    settings = FitSettings(iterations=3000, every=500)
    path = out / "models" / f"{SHIELDED}.safetensors"
    model = fit_to_file(Fitting(), out / "data" / EPISODES.name, SHIELDED, path, settings)
    console.print(f"training {RUN.algo} for {RUN.steps:,} steps, told its physics")
    return model, train(RUN, out / "runs", resume=True)


def _compare(out: Path, model: Model, run: Run, console: Console) -> None:
    """Let the policy drive robots that it never met, and film one, without and with a shield."""
    task = find_task(SHIELDED, 2)
    table = Table(title=f"{ROBOTS} robots with physics out of distribution, two hazards more")
    for column in ("shield", "return", "cost rate", "free of cost", "changed"):
        justify: Literal["left", "right"] = "left" if column == "shield" else "right"
        table.add_column(column, justify=justify, no_wrap=True)
    for words, preset in VARIANTS.items():
        guard = make_guard(preset, model)
        sight = run.policy.sight._replace(model=model if guard else None)
        tally = evaluate(run.policy.act, sight, task, "ood", ROBOTS, guard)
        rate, free = tally.costs.mean() / task.episode_steps, (tally.costs == 0).mean()
        changed = f"{100 * tally.facts['intervened']:.0f} %" if guard else ""
        cells = f"{tally.returns.mean():.1f}", f"{100 * rate:.2f} %", f"{100 * free:.0f} %"
        table.add_row(words, *cells, changed)
    console.print(table)
    for name, preset in (("without-shield", "none"), ("with-shield", "plan")):
        path = out / f"{name}.mp4"
        driver = Driver(run.policy, SEED, make_guard(preset, model))
        watch(World(task, split="ood"), driver, path, replace(Film(), seed=SEED))
        console.print(f"video: {path}   picture: {path.with_suffix('.png')}")


def _tour(out: Path, console: Console) -> None:
    """Roll policies in worlds of every kind, and film two."""
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
