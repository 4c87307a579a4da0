"""Task descriptions: every count, size, range, lidar setting and reward term of a world.

A `Task` is frozen data. `dataclasses.replace` makes a new one from an old one, and everything
is checked when it is made, so a world never meets a half-sensible description:

    >>> from dataclasses import replace
    >>> from hipshield.worlds.catalogue import find_task
    >>> crowded = replace(find_task("point-goal"), name="crowded", hazards=Hazards(count=10))

Lengths are metres, times environment steps, velocities metres per second.
"""

import math
from dataclasses import dataclass, field, fields

from hipshield.errors import TaskError, did_you_mean
from hipshield.worlds.hidden import Parameter

Box2D = tuple[float, float, float, float]  # (x min, y min, x max, y max)

ROBOTS = ("point", "car", "half-cheetah")

# Hidden parameters of the robots, in the order of φ.
PHYSICS = ("gravity", "damping", "mass", "inertia", "friction")
CHEETAH_SEGMENTS = ("torso", "bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot")
CHEETAH_MOTORS = CHEETAH_SEGMENTS[1:]
CHEETAH_HIDDEN = (
    "friction",
    *(f"{s}_length" for s in CHEETAH_SEGMENTS),
    *(f"{m}_gear" for m in CHEETAH_MOTORS),
)


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise TaskError(message)


def _check_positive(owner: object, *names: str, zero: bool = False) -> None:
    """Require the named fields of a description to be finite and positive (or zero)."""
    for name in names:
        value = getattr(owner, name)
        good = isinstance(value, int | float) and math.isfinite(value)
        good = good and (value >= 0 if zero else value > 0)
        bound = "zero or more" if zero else "positive"
        _check(good, f"{type(owner).__name__}.{name} must be a {bound} number, got {value!r}.")


def _check_count(owner: object, name: str, least: int) -> None:
    value = getattr(owner, name)
    _check(
        isinstance(value, int) and not isinstance(value, bool) and value >= least,
        f"{type(owner).__name__}.{name} must be a whole number of at least {least}, got {value!r}.",
    )


@dataclass(frozen=True)
class Lidar:
    """The pseudo-lidar: one ring of bins around the robot for each observed kind of object.

    Attributes:
        bins: number of bins around the full circle.
        reach: distance D at which a reading falls to zero.
        alias: let a reading spill onto its two neighbours, weighted by the angle.
    """

    bins: int = 16
    reach: float = 3.0
    alias: bool = True

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_count(self, "bins", 3)
        _check_positive(self, "reach")


@dataclass(frozen=True)
class Start:
    """Where the robot begins: uniform in `extents` (None: the task's), heading uniform."""

    keepout: float = 0.4
    extents: Box2D | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_positive(self, "keepout", zero=True)


@dataclass(frozen=True)
class Hazards:
    """Discs on the floor that cost 1 while the robot's centre is inside one of them."""

    count: int = 0
    radius: float = 0.2
    keepout: float = 0.18

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_count(self, "count", 0)
        _check_positive(self, "radius")
        _check_positive(self, "keepout", zero=True)


@dataclass(frozen=True)
class Pillars:
    """Solid columns in the way. Touching one costs nothing."""

    count: int = 0
    radius: float = 0.2
    half_height: float = 0.5
    keepout: float = 0.3

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_count(self, "count", 0)
        _check_positive(self, "radius", "half_height")
        _check_positive(self, "keepout", zero=True)


@dataclass(frozen=True)
class GoalObjective:
    """Reach the goal, then the next one.

    Reward: `distance_weight` × decrease of the distance, + `bonus` inside the goal.
    """

    radius: float = 0.3
    keepout: float = 0.305
    distance_weight: float = 1.0
    bonus: float = 1.0

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_positive(self, "radius")
        _check_positive(self, "keepout", "distance_weight", "bonus", zero=True)


@dataclass(frozen=True)
class ButtonObjective:
    """Touch the goal button, then another one drawn uniformly.

    Attributes:
        count, radius, keepout: the solid buttons (spheres).
        marker_radius: the goal marker drawn around the goal button.
        marker_keepout: room that a layout keeps free for the marker's first, unused place.
        delay: steps for which the buttons' lidar reads zero after a touch.
        distance_weight, bonus: reward terms, as for a goal.
    """

    count: int = 4
    radius: float = 0.1
    keepout: float = 0.2
    marker_radius: float = 0.2
    marker_keepout: float = 0.4
    delay: int = 10
    distance_weight: float = 1.0
    bonus: float = 1.0

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_count(self, "count", 1)
        _check_count(self, "delay", 0)
        _check_positive(self, "radius", "marker_radius")
        _check_positive(self, "keepout", "marker_keepout", "distance_weight", "bonus", zero=True)


@dataclass(frozen=True)
class PushObjective:
    """Push the box to the goal, then to the next one. Distances are three-dimensional.

    Reward: weighted decreases of the distances robot–box and box–goal, + `bonus` at the goal.
    The box has four corner posts of half its size, of the same density.
    """

    radius: float = 0.3
    keepout: float = 0.4
    box_half_size: float = 0.2
    box_density: float = 0.001
    box_keepout: float = 0.2
    box_distance_weight: float = 1.0
    goal_distance_weight: float = 1.0
    bonus: float = 1.0

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_positive(self, "radius", "box_half_size", "box_density")
        _check_positive(self, "keepout", "box_keepout", "bonus", zero=True)
        _check_positive(self, "box_distance_weight", "goal_distance_weight", zero=True)


@dataclass(frozen=True)
class CircleObjective:
    """Run along a circle around the origin, between walls that may not be crossed.

    Reward: `weight` · ((−u·y + v·x) / r) / (1 + |r − radius|), with (u, v) the velocity in the
    world and r the distance to the origin. Cost: |x| or |y| beyond `wall` (None: no wall).
    """

    radius: float = 1.5
    wall: float | None = 1.125
    weight: float = 0.1

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_positive(self, "radius")
        _check_positive(self, "weight", zero=True)
        if self.wall is not None:
            _check_positive(self, "wall")


@dataclass(frozen=True)
class RunObjective:
    """Run forward, no faster than `velocity_limit`.

    Reward: `forward_weight` × forward velocity − `control_weight` × |a|². Cost: the forward
    velocity over one step exceeds the limit.
    """

    velocity_limit: float = 2.0
    forward_weight: float = 1.0
    control_weight: float = 0.1
    start_noise: float = 0.1

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_positive(self, "velocity_limit")
        _check_positive(self, "forward_weight", "control_weight", "start_noise", zero=True)


Objective = GoalObjective | ButtonObjective | PushObjective | CircleObjective | RunObjective


@dataclass(frozen=True)
class Task:
    """A world's full description.

    Attributes:
        name: how people call it.
        robot: 'point', 'car' or 'half-cheetah'.
        objective: what earns reward.
        hidden: the hidden parameters φ that vary; those of the robot left out stay at 1.
        hazards, pillars: objects besides the objective's own.
        start: where the robot begins.
        extents: the rectangle that objects are placed in.
        lidar: the pseudo-lidar's settings.
        episode_steps: steps after which an episode is truncated. It never terminates earlier.
        reward_limit: a step's reward is clipped to ± this.
    """

    name: str
    robot: str
    objective: Objective
    hidden: tuple[Parameter, ...] = field(
        default_factory=lambda: tuple(Parameter(n) for n in PHYSICS)
    )
    hazards: Hazards = Hazards()
    pillars: Pillars = Pillars()
    start: Start = Start()
    extents: Box2D = (-1.5, -1.5, 1.5, 1.5)
    lidar: Lidar = Lidar()
    episode_steps: int = 1000
    reward_limit: float = 10.0

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        _check(self.robot in ROBOTS, f"Unknown robot '{self.robot}'."
               + did_you_mean(str(self.robot), ROBOTS))  # fmt: skip
        _check_count(self, "episode_steps", 1)
        _check_positive(self, "reward_limit")
        runs = isinstance(self.objective, RunObjective)
        _check(
            runs == (self.robot == "half-cheetah"),
            f"Robot '{self.robot}' cannot have a {type(self.objective).__name__}:"
            " the half-cheetah runs, the point and the car do everything else.",
        )
        _check(
            not (runs and (self.hazards.count or self.pillars.count)),
            "The half-cheetah has no lidar: it cannot have hazards or pillars.",
        )
        self._check_hidden()
        if not runs:
            _check_extents(self.extents, "Task.extents")
            _check_extents(self.start.extents or self.extents, "Start.extents")
            self._check_room()

    def _check_hidden(self) -> None:
        known = hidden_names(self.robot)
        names = [p.name for p in self.hidden]
        for name in names:
            _check(
                name in known,
                f"Robot '{self.robot}' has no hidden parameter '{name}'."
                + did_you_mean(name, known),
            )
        _check(len(set(names)) == len(names), f"Hidden parameters are named twice: {names}.")

    def _check_room(self) -> None:
        """An object's keep-out must leave some of its extents to place it in."""
        for kind, keepout, extents in placements(self):
            x0, y0, x1, y1 = extents
            _check(
                x1 - x0 > 2 * keepout and y1 - y0 > 2 * keepout,
                f"Task '{self.name}': a keep-out of {keepout:g} leaves no room for the {kind} in"
                f" extents {extents}. Enlarge the extents or lower the keep-out.",
            )

    def describe(self) -> str:
        """Return the fields of the description, one a line, for people."""
        return "\n".join(f"{f.name} = {getattr(self, f.name)!r}" for f in fields(self))


def hidden_names(robot: str) -> tuple[str, ...]:
    """Return the hidden parameters that a robot can have, in their canonical order."""
    return CHEETAH_HIDDEN if robot == "half-cheetah" else PHYSICS


def _check_extents(extents: Box2D, where: str) -> None:
    good = len(extents) == 4 and all(math.isfinite(v) for v in extents)
    _check(
        good and extents[0] < extents[2] and extents[1] < extents[3],
        f"{where} must be (x min, y min, x max, y max) with min < max, got {extents!r}.",
    )


def placements(task: Task) -> list[tuple[str, float, Box2D]]:
    """Return what a layout places, in order: (kind, keep-out, extents), one row an object.

    The order is part of the distribution: the robot first, then the objective's objects,
    hazards, pillars and the box, as in the recorded layouts.
    """
    rows = [("robot", task.start.keepout, task.start.extents or task.extents)]
    objective = task.objective
    if isinstance(objective, ButtonObjective):
        rows += [("button", objective.keepout, task.extents)] * objective.count
        rows.append(("goal", objective.marker_keepout, task.extents))
    elif isinstance(objective, GoalObjective | PushObjective):
        rows.append(("goal", objective.keepout, task.extents))
    rows += [("hazard", task.hazards.keepout, task.extents)] * task.hazards.count
    rows += [("pillar", task.pillars.keepout, task.extents)] * task.pillars.count
    if isinstance(objective, PushObjective):
        rows.append(("box", objective.box_keepout, task.extents))
    return rows
