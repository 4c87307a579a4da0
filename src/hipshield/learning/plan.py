"""A plan: a configuration turned into the things that it names."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hipshield.learning.catalogue import Algorithm, OffPolicy, find_algorithm
from hipshield.learning.collect import Sight
from hipshield.learning.config import TrainConfig
from hipshield.learning.context import find_context
from hipshield.learning.guard import Guard, make_guard
from hipshield.learning.learner import Learner
from hipshield.learning.off_policy import make_off_recipe, off_policy
from hipshield.learning.on_policy import make_recipe, on_policy
from hipshield.learning.saute import Saute
from hipshield.models.store import Model
from hipshield.worlds.world import World

# type of row -> (configuration, row, number of inputs, number of actions) -> learner
LEARNERS: dict[type, Callable[..., Learner]] = {
    Algorithm: lambda config, *rest: on_policy(make_recipe(config, *rest), config.seed),
    OffPolicy: lambda config, *rest: off_policy(make_off_recipe(config, *rest), config.seed),
}


@dataclass(frozen=True)
class Plan:
    """What a run is made of.

    Attributes:
        world: with all the robots of an epoch.
        sight: what the policy sees in it.
        learner: how it learns.
        steps: of an episode.
        guard: the shield around whoever acts, if there is one.
    """

    world: World
    sight: Sight
    learner: Learner
    steps: int
    guard: Guard | None


def make_plan(
    config: TrainConfig,
    threads: int | None = None,
    robots: int | None = None,
    model: Model | None = None,
) -> Plan:
    """Build world, sight and learner of a run.

    Args:
        config: the run.
        threads: physics threads; None for one per core.
        robots: how many, if not as many as an epoch has.
        model: that the context `encoder` and shields need.
    """
    row: Any = find_algorithm(config.algo)
    task = config.find_task()
    world = World(task, config.robots if robots is None else robots, config.split, threads)
    saute = Saute(config.cost_limit) if row.saute else None
    sight = Sight(find_context(config.context), saute, model)
    learner = LEARNERS[type(row)](config, row, sight.size(world), world.actions)
    guard = make_guard(config.shield, model)
    return Plan(world, sight, learner, task.episode_steps, guard)
