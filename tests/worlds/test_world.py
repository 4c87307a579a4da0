from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipshield.errors import ActionError, NotResetError, SnapshotError, TaskError
from hipshield.worlds.catalogue import TASK_NAMES, find_task
from hipshield.worlds.scripted import drive, make_random
from hipshield.worlds.snapshot import Snapshot
from hipshield.worlds.step import FAULTS
from hipshield.worlds.world import World

SMALL = ["point-goal", "car-button", "point-push", "car-circle", "half-cheetah-velocity"]


def short(name, **changes):
    """A task whose goals are met within few steps, so that redraws are part of the tests."""
    task = find_task(name, 2)
    if name.endswith("goal"):
        task = replace(task, objective=replace(task.objective, radius=1.2))
    return replace(task, **changes)


def same(a, b):
    """Assert that two steps are the same bits."""
    for field in a._fields[:-1]:
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)
    for name in a.terms:
        np.testing.assert_array_equal(a.terms[name], b.terms[name])


def rows(step, i):
    """One robot's row of a step."""
    terms = {k: v[i : i + 1] for k, v in step.terms.items()}
    return step._replace(**{f: getattr(step, f)[i : i + 1] for f in step._fields[:-1]}, terms=terms)


@pytest.mark.parametrize("name", SMALL)
def test_each_robot_of_a_batch_is_the_single_world_of_its_seed(name):
    robots, steps, task = 5, 40, short(name)
    actions = np.random.default_rng(0).uniform(
        -1, 1, (steps, robots, 2 if "half" not in name else 6)
    )
    batch = World(task, robots, split="ood")
    history = [batch.reset(seed=11)] + [batch.step(a) for a in actions]
    for i in (0, 3, 4):
        single = World(task, 1, split="ood", threads=1)
        same(single.reset(seed=11 + i), rows(history[0], i))
        for t in range(steps):
            same(single.step(actions[t][i : i + 1]), rows(history[t + 1], i))
        np.testing.assert_array_equal(single.hidden[0], batch.hidden[i])
    if name == "point-goal":
        assert any(step.met.any() for step in history)  # new goals were drawn on the way


@pytest.mark.parametrize("name", ["point-goal", "car-button"])
def test_results_do_not_depend_on_the_number_of_threads(name):
    def run(threads):
        world = World(find_task(name), robots=9, threads=threads)
        step, policy = world.reset(seed=5), make_random(1)
        for _ in range(50):
            step = world.step(policy(world))
        return step

    one = run(1)
    for threads in (2, 3):
        same(one, run(threads))


def test_seeds_make_episodes_and_their_absence_makes_new_ones():
    world = World(find_task("point-goal"), robots=3)
    first, again, other = (world.reset(seed=s).obs for s in (1, 1, 7))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(world.reset(seed=[1, 2, 3]).obs, first)
    follow = [world.reset().obs for _ in range(2)]
    assert not np.array_equal(*follow)
    fresh = [World(find_task("point-goal")).reset().obs for _ in range(2)]
    assert not np.array_equal(*fresh)  # unseeded worlds are unpredictable


@pytest.mark.parametrize("name", TASK_NAMES)
def test_save_and_load_continue_with_the_same_bits(name, tmp_path):
    world = World(short(name), robots=4, split="ood")
    world.reset(seed=2)
    policy = make_random(3)
    for _ in range(25):
        world.step(policy(world))
    world.save().write(tmp_path / "state.safetensors")
    actions = [policy(world) for _ in range(25)]
    want = [world.step(a) for a in actions] + [world.reset()]

    other = World(short(name), robots=4, split="ood", threads=1)  # a world that knows nothing
    other.load(Snapshot.read(tmp_path / "state.safetensors"))
    for step, action in zip(want, actions, strict=False):
        same(other.step(action), step)
    same(other.reset(), want[-1])  # the random generators were restored, too


def test_snapshots_that_do_not_fit(tmp_path):
    world = World(find_task("point-goal"), robots=2)
    with pytest.raises(NotResetError, match="reset"):
        world.save()
    world.reset(seed=0)
    snapshot = world.save()
    with pytest.raises(SnapshotError, match="'point-goal', this world is 'car-goal'"):
        World(find_task("car-goal"), robots=2).load(snapshot)
    with pytest.raises(SnapshotError, match="3 robots"):
        World(find_task("point-goal"), robots=3).load(snapshot)
    path = tmp_path / "state.safetensors"
    with pytest.raises(SnapshotError, match="no snapshot at"):
        Snapshot.read(path)
    snapshot.write(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SnapshotError, match="not a readable snapshot"):
        Snapshot.read(path)
    path.write_text("not a snapshot")
    with pytest.raises(SnapshotError, match="not a readable snapshot"):
        Snapshot.read(path)


def test_step_before_reset():
    world = World(find_task("point-goal"), robots=2)
    for act in (lambda: world.step(np.zeros((2, 2))), world.view):
        with pytest.raises(NotResetError, match="reset"):
            act()
    with pytest.raises(NotResetError, match="all robots"):
        world.reset(robots=np.array([True, False]))


@pytest.mark.parametrize(
    "actions", [np.zeros(2), np.zeros((3, 2)), np.zeros((2, 3)), np.zeros((2, 1, 2)), "left"]
)
def test_wrong_shapes_are_refused(actions):
    world = World(find_task("point-goal"), robots=2)
    world.reset(seed=0)
    with pytest.raises(ActionError, match="Actions must"):
        world.step(actions)


@settings(max_examples=15)
@given(st.sampled_from([np.nan, np.inf, -np.inf]), st.integers(0, 3), st.integers(0, 1))
def test_a_bad_action_stops_one_robot_and_no_other(value, robot, column):
    task = find_task("car-goal")
    world, control = World(task, robots=4), World(task, robots=4)
    before = world.reset(seed=0)
    control.reset(seed=0)
    actions = np.full((4, 2), 0.5)
    want = control.step(actions)
    bad = actions.copy()
    bad[robot, column] = value
    got = world.step(bad)
    for i in range(4):
        if i != robot:
            same(rows(got, i), rows(want, i))
    np.testing.assert_array_equal(got.obs[robot], before.obs[robot])
    assert FAULTS[got.fault[robot]].startswith("action is not finite")
    assert (got.reward[robot], world.elapsed[robot], got.truncated[robot]) == (0, 0, False)
    # The next good action is as if the bad one had never been.
    catch_up = np.zeros(4, bool)
    catch_up[robot] = True
    same(rows(world.step(actions, robots=catch_up), robot), rows(want, robot))


def test_diverged_physics_end_one_episode_and_no_other():
    task = find_task("car-goal")
    world, control = World(task, robots=3), World(task, robots=3)
    world.reset(seed=0)
    control.reset(seed=0)
    world.physics.state["qvel"][1] = 1e200  # no simulator survives this
    actions = np.full((3, 2), 0.5)
    got, want = world.step(actions), control.step(actions)
    assert got.fault.tolist() == [0, 2, 0]
    assert got.truncated.tolist() == [False, True, False]
    assert np.isfinite(got.obs).all()
    for i in (0, 2):
        same(rows(got, i), rows(want, i))
    world.reset(robots=np.array([1]))
    assert not world.step(actions).fault.any()


def test_robots_that_wait_are_not_touched():
    world = World(find_task("point-goal"), robots=3)
    before = world.reset(seed=0)
    step = world.step(np.ones((3, 2)), robots=np.array([0, 2]))
    np.testing.assert_array_equal(step.obs[1], before.obs[1])
    assert world.elapsed.tolist() == [1, 0, 1]
    assert not step.fault.any()


def test_partial_resets_leave_the_others_alone():
    world = World(find_task("car-push"), robots=3)
    world.reset(seed=0)
    for _ in range(5):
        before = world.step(np.ones((3, 2)))
    state = world.physics.state["qpos"].copy()
    after = world.reset(robots=np.array([False, True, False]))
    np.testing.assert_array_equal(after.obs[[0, 2]], before.obs[[0, 2]])
    np.testing.assert_array_equal(world.physics.state["qpos"][[0, 2]], state[[0, 2]])
    assert not np.array_equal(after.obs[1], before.obs[1])
    assert world.elapsed.tolist() == [5, 0, 5]


def test_episodes_are_truncated_on_time_and_never_terminated():
    world = World(find_task("point-circle"), robots=2)
    world.reset(seed=0)
    for t in range(1, 501):
        step = world.step(np.zeros((2, 2)))
        assert step.truncated.all() == (t == 500)
        assert not step.terminated.any()


def test_reward_terms_sum_to_the_reward():
    for name in TASK_NAMES:
        world = World(find_task(name), robots=8)
        world.reset(seed=0)
        for _ in range(20):
            step = world.step(drive(world))
            np.testing.assert_allclose(sum(step.terms.values()), step.reward, atol=1e-12)


def test_a_reward_is_clipped():
    task = find_task("point-goal")
    objective = replace(task.objective, bonus=25.0, radius=1.4)
    world = World(replace(task, objective=objective), robots=4)
    world.reset(seed=0)
    step = world.step(np.zeros((4, 2)))
    assert step.reward[step.met] == pytest.approx(10.0)
    assert step.met.any()


def test_met_goals_move_and_buttons_hide():
    """The goal of a step's reward is the old one; its observation shows the new one."""
    world = World(find_task("point-button"), robots=32)
    world.reset(seed=0)
    timer = np.zeros(32, int)
    met_before = np.zeros(32, bool)
    for _ in range(400):
        goal = world.layout.goal.copy()
        step = world.step(drive(world))
        timer = np.maximum(timer - 1, 0)
        timer[step.met] = 10
        hidden = (step.obs[:, world.parts["buttons_lidar"]] == 0).all(1)
        np.testing.assert_array_equal(hidden, timer > 0)
        moved = (world.layout.goal != goal).any(1)
        assert not (moved & ~step.met).any()
        assert (step.terms["bonus"] == step.met).all()
        met_before |= step.met
    assert met_before.mean() > 0.5
    at_button = np.linalg.norm(world.layout.buttons - world.layout.goal[:, None], axis=2).min(1)
    assert at_button.max() == 0


def test_hidden_parameters_can_be_set_and_changed():
    world = World(find_task("car-goal"), robots=3, split="fixed")
    world.reset(seed=0, hidden=[1, 1, 2, 1, 1])
    assert (world.hidden[:, 2] == 2).all()
    world.set_hidden([1, 1, 4, 1, 1], robots=np.array([1]))
    masses = [m.body("agent").mass[0] for m in world.physics.models(range(3))]
    assert masses[1] == pytest.approx(2 * masses[0]) == pytest.approx(2 * masses[2])
    world.reset()
    assert (world.hidden == 1).all()
    for bad, says in (([1, 2], "shape"), ([1, 1, -1, 1, 1], "positive"), ("heavy", "shape")):
        with pytest.raises(TaskError, match=says):
            world.reset(seed=0, hidden=bad)


def test_bad_arguments():
    with pytest.raises(TaskError, match="at least one robot"):
        World(find_task("point-goal"), robots=0)
    with pytest.raises(TaskError, match="threads"):
        World(find_task("point-goal"), threads=0)
    world = World(find_task("point-goal"), robots=2)
    with pytest.raises(TaskError, match="3 seeds"):
        world.reset(seed=[1, 2, 3])
    with pytest.raises(TaskError, match="numbered 0 to 1"):
        world.reset(seed=0, robots=np.array([2]))
    with pytest.raises(TaskError, match="mask"):
        world.reset(seed=0, robots=np.ones(3, bool))


def test_a_step_is_a_record_that_never_changes_later():
    world = World(find_task("car-goal"), robots=2)
    world.reset(seed=0)
    first = world.step(np.ones((2, 2)))
    kept = [np.array(getattr(first, f)) for f in first._fields[:-1]]
    for _ in range(3):
        world.step(-np.ones((2, 2)))
    for field, old in zip(first._fields[:-1], kept, strict=True):
        np.testing.assert_array_equal(getattr(first, field), old)
