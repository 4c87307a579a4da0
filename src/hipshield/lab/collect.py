"""Collecting data to fit predictors to: whole episodes of a policy, as a Minari data set."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hipshield.errors import HipshieldError
from hipshield.learning.config import TrainConfig
from hipshield.learning.driver import Driver
from hipshield.learning.run import Run
from hipshield.learning.train import train
from hipshield.models.data import Facts, dataset_id, record, write_dataset
from hipshield.models.episodes import Episode
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.scripted import Policy, make_random
from hipshield.worlds.world import World

_AT_ONCE = 100  # robots of a batch
_HELD = (5, 40)  # steps that a manoeuvre is held, the least and one more than the most


@dataclass(frozen=True)
class Collection:
    """What to collect.

    Attributes:
        task: name of the task.
        policy: 'ppo' (trained first, when there is none yet), 'random', or a run's folder.
        episodes: how many.
        split: of the hidden parameters: train, ood or fixed.
        seed: of everything random.
        explore: share of the robots that leave the policy for random manoeuvres half of the time.
        ppo_steps: environment steps that 'ppo' is trained for.
    """

    task: str = "point-goal"
    policy: str = "ppo"
    episodes: int = 1000
    split: str = "train"
    seed: int = 0
    explore: float = 0.0
    ppo_steps: int = 500_000

    def __post_init__(self) -> None:
        """Check the numbers; the names are checked where they are used."""
        if self.episodes < 1 or not 0 <= self.explore <= 1:
            raise HipshieldError("Collect at least 1 episode, with explore between 0 and 1.")
        if not 0 <= self.seed < 2**31:
            raise HipshieldError(f"seed must be between 0 and 2147483647, got {self.seed}.")

    @property
    def name(self) -> str:
        """Id of the data set: task, policy, and what differs from the usual."""
        policy = self.policy if self.policy in ("ppo", "random") else Path(self.policy).name
        words = [policy, *([] if self.split == "train" else [self.split])]
        if self.explore:
            words.append(f"explore{round(100 * self.explore)}")
        if self.seed:
            words.append(f"s{self.seed}")
        return dataset_id(self.task, "-".join(words))


def collect_dataset(
    wanted: Collection, out: Path, runs: Path, show: Callable[[int], None] = lambda done: None
) -> Facts:
    """Run the episodes and write them.

    Args:
        wanted: what.
        out: root of the data sets.
        runs: folder that holds runs, for 'ppo'.
        show: called with the number of finished episodes.

    Returns:
        The data set's facts.
    """
    task = find_task(wanted.task)
    drive = _driver(wanted, runs)
    facts = Facts(task.name, task.describe(), wanted.split, wanted.policy, wanted.seed)

    def batches() -> Iterator[list[Episode]]:
        done = 0
        while done < wanted.episodes:
            robots = min(_AT_ONCE, wanted.episodes - done)
            world = World(task, robots, wanted.split)
            words = np.random.SeedSequence([wanted.seed, done]).generate_state(
                robots + 1, np.uint64
            )
            seeds = [int(w) for w in words]
            world.reset(seed=seeds[:-1])
            policy = with_manoeuvres(drive(seeds[-1]), wanted.explore, seeds[-1])
            yield record(world, policy)
            done += robots
            show(done)

    return write_dataset(out, wanted.name, facts, batches())


def _driver(wanted: Collection, runs: Path) -> Callable[[int], Policy]:
    """Return who drives a batch, given its seed."""
    if wanted.policy == "random":
        return make_random
    if wanted.policy == "ppo":
        config = TrainConfig(task=wanted.task, algo="ppo", context="none", steps=wanted.ppo_steps)
        run = train(config, runs, resume=True)
    else:
        run = Run.load(wanted.policy)
    return lambda seed: Driver(run.policy, seed)


def with_manoeuvres(policy: Policy, share: float, seed: int) -> Policy:
    """Let some robots alternate between the policy and random actions that they hold for a while.

    A policy that has learned its task rarely brakes hard or drives at a hazard, which is just
    what a shield has to foresee.
    """
    rng = np.random.default_rng([seed, 1])
    left, own, held = np.zeros(0, int), np.zeros(0, bool), np.zeros((0, 0))

    def mixed(world: World) -> np.ndarray:
        nonlocal left, own, held
        chosen = np.array(policy(world))
        few = round(share * world.robots)
        if not world.elapsed.any():
            left, held = np.zeros(few, int), np.zeros((few, world.actions))
            own = rng.random(few) < 0.5
        over = np.flatnonzero(left == 0)
        left[over] = rng.integers(*_HELD, len(over))
        own[over] = ~own[over]
        values = rng.uniform(-1, 1, (len(over), world.actions))
        extreme = rng.random((len(over), 1)) < 0.5
        held[over] = np.where(extreme, np.sign(values) * (np.abs(values) > 1 / 3), values)
        left -= 1
        chosen[:few] = np.where(own[:, None], chosen[:few], held)
        return chosen

    return mixed
