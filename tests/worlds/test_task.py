from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from hipshield.errors import TaskError
from hipshield.worlds.catalogue import LEVELS, TASK_NAMES, find_task, gymnasium_id
from hipshield.worlds.hidden import Parameter
from hipshield.worlds.task import (
    ButtonObjective,
    CircleObjective,
    GoalObjective,
    Hazards,
    Lidar,
    Pillars,
    PushObjective,
    RunObjective,
    Start,
    Task,
)
from hipshield.worlds.world import World


def test_the_suite():
    assert len(TASK_NAMES) == 9
    hazards = {(n, lv): find_task(n, lv).hazards.count for n in TASK_NAMES for lv in LEVELS}
    for robot in ("point", "car"):
        assert [hazards[f"{robot}-goal", lv] for lv in LEVELS] == [6, 8]
        assert [hazards[f"{robot}-button", lv] for lv in LEVELS] == [6, 8]
        assert [hazards[f"{robot}-push", lv] for lv in LEVELS] == [2, 4]
        assert [hazards[f"{robot}-circle", lv] for lv in LEVELS] == [0, 0]
    assert find_task("car-circle").episode_steps == 500
    assert find_task("car-goal").episode_steps == 1000


@pytest.mark.parametrize("name", TASK_NAMES)
@pytest.mark.parametrize("level", LEVELS)
def test_every_name_of_a_task_finds_it(name, level):
    task = find_task(name, level)
    assert find_task(task.name) == task
    assert find_task(gymnasium_id(name, level)) == task


@pytest.mark.parametrize(
    ("name", "level", "says"),
    [
        ("point-gaol", None, "Did you mean 'point-goal'"),
        ("hipshield/PointBotton1-v0", None, "Did you mean 'point-button'"),
        ("zzz", None, "Known: car-button"),
        ("point-goal", 3, "levels 1 and 2"),
        ("point-goal-7", None, "levels 1 and 2"),
    ],
)
def test_unknown_tasks(name, level, says):
    with pytest.raises(TaskError, match=says):
        find_task(name, level)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Hazards(count=-1), "Hazards.count"),
        (lambda: Hazards(count=2.5), "whole number"),
        (lambda: Hazards(radius=0), "Hazards.radius must be a positive number, got 0"),
        (lambda: Pillars(half_height=float("nan")), "Pillars.half_height"),
        (lambda: Lidar(bins=2), "Lidar.bins"),
        (lambda: Lidar(reach=-3), "Lidar.reach"),
        (lambda: Start(keepout=-0.1), "Start.keepout"),
        (lambda: GoalObjective(radius="big"), "GoalObjective.radius"),
        (lambda: ButtonObjective(count=0), "ButtonObjective.count"),
        (lambda: PushObjective(box_density=0), "PushObjective.box_density"),
        (lambda: CircleObjective(wall=-1), "CircleObjective.wall"),
        (lambda: RunObjective(velocity_limit=0), "RunObjective.velocity_limit"),
        (lambda: Task("t", "pont", GoalObjective()), "Did you mean 'point'"),
        (lambda: Task("t", "point", RunObjective()), "the half-cheetah runs"),
        (lambda: Task("t", "half-cheetah", GoalObjective()), "the half-cheetah runs"),
        (lambda: replace(find_task("half-cheetah-velocity"), hazards=Hazards(1)), "no lidar"),
        (lambda: replace(find_task("point-goal"), extents=(1, 1, -1, -1)), "min < max"),
        (lambda: replace(find_task("point-goal"), extents=(-0.3, -0.3, 0.3, 0.3)), "no room"),
        (lambda: replace(find_task("point-goal"), episode_steps=0), "Task.episode_steps"),
        (lambda: replace(find_task("point-goal"), hidden=(Parameter("gear"),)), "no hidden"),
        (
            lambda: replace(find_task("point-goal"), hidden=(Parameter("mass"),) * 2),
            "named twice",
        ),
    ],
)
def test_bad_descriptions_name_the_field(make, says):
    with pytest.raises(TaskError) as error:
        make()
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_tasks_are_frozen():
    with pytest.raises(FrozenInstanceError):
        find_task("point-goal").name = "other"


def test_a_task_of_ones_own():
    """Everything a user may change changes the world."""
    task = replace(
        find_task("car-goal"),
        name="mine",
        hidden=(Parameter("mass", train=(2.0, 2.0)),),
        hazards=Hazards(count=3, radius=0.35, keepout=0.3),
        pillars=Pillars(count=2, keepout=0.25),
        extents=(-2, -1, 2, 1),
        lidar=Lidar(bins=8, reach=2.0, alias=False),
        episode_steps=7,
    )
    world = World(task, robots=3)
    step = world.reset(seed=0)
    assert world.parts["hazards_lidar"].stop - world.parts["hazards_lidar"].start == 8
    assert world.layout.hazards.shape == (3, 3, 2)
    assert np.abs(world.layout.hazards[..., 1]).max() <= 0.7
    assert (world.hidden == 2).all()
    mass = [m.body("agent").mass[0] for m in world.physics.models(range(3))]
    np.testing.assert_allclose(mass, 2 * world.physics.model.body("agent").mass[0])
    distance = np.linalg.norm(world.layout.hazards - step.feature[:, None], axis=2).min(1)
    np.testing.assert_allclose(step.margin, distance - 0.35)
    for _ in range(7):
        assert not step.truncated.any()
        step = world.step(np.zeros((3, 2)))
    assert step.truncated.all()
    assert "robot = 'car'" in task.describe()
