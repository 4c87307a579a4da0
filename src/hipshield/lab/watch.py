"""Watching one robot: a video of an episode, and a picture of its path."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hipshield.errors import HipshieldError
from hipshield.worlds.scripted import Policy
from hipshield.worlds.seeing.drawing import VERMILLION, Overlay, Path, Status, draw_trajectory
from hipshield.worlds.seeing.renderer import Renderer
from hipshield.worlds.seeing.video import check_video_path, write_picture, write_video
from hipshield.worlds.world import World

FRAMES_PER_SECOND = 25

Row = tuple[np.ndarray, float, float, bool]  # e(s), reward, cost, goal met


@dataclass
class Episode:
    """What happened: totals, and the path for the picture.

    Attributes:
        path: e(s) of each step: positions, shape (steps, 2), or velocities, (steps, 1).
        costs: shape (steps,).
    """

    path: np.ndarray
    costs: np.ndarray
    total_reward: float
    goals: int

    @property
    def cost_rate(self) -> float:
        """Share of steps that cost, 0 to 1."""
        return float(self.costs.mean())


def roll(world: World, policy: Policy, seed: int, steps: int | None = None) -> Iterator[Row]:
    """Run one robot's episode; yield (e(s), reward, cost, goal met) after each step."""
    world.reset(seed=seed)
    for _ in range(steps or world.task.episode_steps):
        step = world.step(policy(world))
        yield step.feature[0], float(step.reward[0]), float(step.cost[0]), bool(step.met[0])
        if step.truncated[0]:
            return


def collect(rows: list[Row]) -> Episode:
    """Gather the steps of an episode."""
    features, rewards, costs, met = zip(*rows, strict=True)
    return Episode(np.array(features), np.array(costs), float(sum(rewards)), int(sum(met)))


def _overlays(rows: list[Row]) -> list[Overlay]:
    """Return the way so far (the half-cheetah leaves none) and, once there is one, the cost."""
    points, paid = np.array([row[0] for row in rows]), int(sum(row[2] for row in rows))
    shown: list[Overlay] = []
    if points.shape[1] == 2 and len(points) > 1:
        shown.append(Path(points))
    if paid:
        shown.append(Status(f"cost {paid}", VERMILLION))
    return shown


@dataclass(frozen=True)
class Film:
    """How to film: which episode (`seed`), how much of it (`steps`), by which renderer."""

    seed: int = 0
    steps: int | None = None
    backend: str = "auto"
    size: int = 480

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.steps is not None and self.steps < 1:
            raise HipshieldError(f"steps must be at least 1, got {self.steps}.")


def watch(world: World, policy: Policy, out: str | os.PathLike[str], film: Film) -> Episode:
    """Write a video of one episode to `out`, and a picture of its path beside it.

    The video plays in real time: frames are taken as often as 25 a second needs.
    """
    if world.robots != 1:
        raise HipshieldError("Watch one robot at a time: make the world with robots=1.")
    path = check_video_path(out)
    renderer = Renderer(world, backend=film.backend, size=(film.size, film.size))
    rows: list[Row] = []
    every = max(1, round(1 / (FRAMES_PER_SECOND * world.seconds_per_step)))

    def frames() -> Iterator[np.ndarray]:
        for row in roll(world, policy, film.seed, film.steps):
            rows.append(row)
            if (len(rows) - 1) % every == 0:
                yield renderer.frame(overlays=_overlays(rows), caption=world.task.name)

    try:
        write_video(path, frames(), fps=1 / (every * world.seconds_per_step))
    finally:
        renderer.close()
    episode = collect(rows)
    write_picture(path.with_suffix(".png"), draw_trajectory(world, episode.path, episode.costs))
    return episode
