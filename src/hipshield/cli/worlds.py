"""Verbs about worlds: list them, watch a robot in one, measure their speed."""

from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from hipshield.errors import HipshieldError
from hipshield.worlds.catalogue import TASK_NAMES, find_task, gymnasium_id
from hipshield.worlds.task import RunObjective, Task


@dataclass(frozen=True)
class Worlds:
    """List the tasks with their spaces, hidden parameters and limits."""

    task: Positional[str] = ""
    """Show one task's whole description instead."""

    def run(self) -> None:
        """Print a table, or one description."""
        console = Console()
        if self.task:
            console.print(find_task(self.task).describe(), markup=False, highlight=False)
            return
        table = Table(box=box.SIMPLE)
        for column in ("task", "obs", "act", "steps", "a step costs 1 at"):
            table.add_column(column, no_wrap=True)
        for name in TASK_NAMES:
            table.add_row(*_row(name))
        console.print(table)
        first, last = gymnasium_id(TASK_NAMES[0], 1), gymnasium_id(TASK_NAMES[-1], 2)
        print(f"Gymnasium's ids name task and level: {first} to {last}.")
        print("Hidden parameters φ (multipliers drawn at every reset):")
        for ranges, tasks in _grouped_parameters().items():
            print(f"  {ranges}: {', '.join(tasks)}")
        print("All fields of one task: hipshield worlds point-goal")


def _row(name: str) -> list[str]:
    from hipshield.worlds.world import World

    task = find_task(name)
    world = World(task, threads=1)
    sizes = (world.observation_size, world.actions, task.episode_steps)
    return [name, *map(str, sizes), _limit(task)]


def _grouped_parameters() -> dict[str, list[str]]:
    """Return the tasks that share each set of parameters and ranges, by its description."""
    groups: dict[str, list[str]] = {}
    for name in TASK_NAMES:
        groups.setdefault("; ".join(_ranges(find_task(name))), []).append(name)
    return groups


def _limit(task: Task) -> str:
    """Return in words what costs."""
    if isinstance(task.objective, RunObjective):
        return f"v > {task.objective.velocity_limit:g} m/s"
    wall = getattr(task.objective, "wall", None)
    if wall is not None:
        return f"|x| or |y| > {wall:g} m"
    return f"≤ {task.hazards.radius:g} m from {task.hazards.count} hazards"


def _ranges(task: Task) -> list[str]:
    """Return the parameters' names, grouped by their ranges."""
    groups: dict[str, list[str]] = {}
    for p in task.hidden:
        train, ood = (" ∪ ".join(f"{a:g}–{b:g}" for a, b in r) for r in (p.train, p.ood))
        groups.setdefault(f"train {train}, ood {ood}", []).append(p.name)
    return [f"{', '.join(names)} ({ranges})" for ranges, names in groups.items()]


@dataclass(frozen=True)
class Watch:
    """Write a video of one episode, and a picture of its path beside it."""

    task: Positional[str]
    """A task's name, such as point-goal or car-push-2."""
    out: Path = Path("watch.mp4")
    """Video file (.mp4 or .gif); the picture has the same name with .png."""
    policy: str = "scripted"
    """random, scripted, idle, or a run's folder."""
    shield: str = "none"
    """Shield around a run's policy: none, paper or plan."""
    model: Path | None = None
    """Model that the shield predicts with; default: the one that the run keeps."""
    split: str = "train"
    """Distribution of the hidden parameters: train, ood or fixed."""
    level: int | None = None
    """1 or 2; default: what the task's name says."""
    seed: int = 0
    """Of the episode and of the random policy."""
    steps: int | None = None
    """Stop earlier than the episode."""
    backend: str = "auto"
    """mujoco (needs a GL library), drawing (from above, needs nothing), or auto."""
    size: int = 480
    """Width and height of the video in pixels."""

    def run(self) -> None:
        """Roll the episode and write both files."""
        from hipshield.lab.watch import Film, watch
        from hipshield.learning.driver import Driver
        from hipshield.learning.guard import make_guard
        from hipshield.learning.run import Run
        from hipshield.models.store import load_model
        from hipshield.worlds.scripted import Policy, find_policy
        from hipshield.worlds.world import World

        policy: Policy
        if Path(self.policy).is_dir():
            trained = Run.load(self.policy).policy
            model = load_model(self.model) if self.model else trained.sight.model
            policy = Driver(trained, self.seed, make_guard(self.shield, model))
        elif self.shield != "none":
            raise HipshieldError("Shields here are for a run's policy: give --policy a folder.")
        else:
            policy = find_policy(self.policy, self.seed)
        world = World(find_task(self.task, self.level), split=self.split)
        film = Film(self.seed, self.steps, self.backend, self.size)
        episode = watch(world, policy, self.out, film)
        names = (p.name for p in world.task.hidden)
        hidden = ", ".join(f"{n} {v:.2f}" for n, v in zip(names, world.hidden[0], strict=True))
        print(f"return {episode.total_reward:.2f}, cost rate {100 * episode.cost_rate:.2f} %,"
              f" goals {episode.goals}; hidden: {hidden}")  # fmt: skip
        print(f"wrote {self.out} and {self.out.with_suffix('.png')}")


@dataclass(frozen=True)
class Bench:
    """Measure speeds as ratios within one run."""

    what: Positional[str]
    """worlds: environment steps, against MuJoCo's limit and Safety-Gymnasium."""
    tasks: tuple[str, ...] = ()
    """Default: all."""
    robots: int = 128
    """Batch size."""
    threads: int | None = None
    """Default: one per core."""
    json: bool = False
    """Print one line of JSON a task instead of a table."""
    peer: Path = Path("benchmarks/side")
    """Folder of the peer's side environment; without it, no comparison with the peer."""

    def run(self) -> None:
        """Measure and print."""
        from hipshield.lab import bench_worlds

        if self.what != "worlds":
            raise HipshieldError(f"Unknown benchmark '{self.what}'. Known: worlds.")
        bench_worlds.report(
            self.tasks, self.robots, self.threads, as_json=self.json, peer=self.peer
        )


@dataclass(frozen=True)
class Demo:
    """Tour the worlds; then record, fit, train, and shield a policy; leave videos and pictures."""

    out: Path = Path("demo")
    """Folder for the results."""

    def run(self) -> None:
        """Run the demonstration."""
        from hipshield.lab.demo import demo

        demo(self.out)
