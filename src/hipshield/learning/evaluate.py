"""Evaluation: fresh episodes through the same code that collects experience for training."""

from typing import Any

from hipshield.learning.acting import Actor, Pilot
from hipshield.learning.collect import Sight, Tally, collect
from hipshield.learning.guard import Guard
from hipshield.worlds.hidden import Split
from hipshield.worlds.task import Task
from hipshield.worlds.world import World

APART = 1 << 20  # an epoch that no training reaches: its seeds are not among training's


def evaluate(
    act: Actor,
    sight: Sight,
    task: Task,
    split: Split,
    episodes: int,
    guard: Guard | None = None,
) -> Tally:
    """Run episodes with a policy, and with its shield; return their returns and costs.

    The episodes are the same for every policy that is evaluated on this task and split.
    """
    world = World(task, episodes, split)
    pilot = Pilot(act, guard=guard)
    _, tally = collect(world, pilot, sight, steps=task.episode_steps, seed=0, epoch=APART)
    return tally


def summary(tally: Tally, steps: int) -> dict[str, Any]:
    """Return a row's worth of an evaluation."""
    return {
        "episodes": len(tally.returns),
        "return": float(tally.returns.mean()),
        "return_std": float(tally.returns.std()),
        "cost_rate": float(tally.costs.mean() / steps),
        "free_of_cost": float((tally.costs == 0).mean()),
    }
