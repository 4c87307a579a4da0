"""Motions: what is integrated is what happened, wherever a robot is and however it is turned."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipshield.models.motion import plain, planar
from hipshield.models.robots import motion_of
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.world import World

TASKS = ("point-goal", "car-button", "car-circle", "half-cheetah-velocity")


def drive(name, steps, robots=3):
    """Yield (motion, z, action, z after, step) of random driving."""
    world = World(find_task(name), robots, threads=1)
    motion = motion_of(world.task)
    step = world.reset(seed=0)
    z = motion.start(step.obs, step.feature)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        action = rng.uniform(-1, 1, (robots, world.actions)).astype(np.float32)
        step = world.step(action)
        after = motion.observe(z, action, step.obs, step.feature)
        yield motion, z, action, after, step, world
        z = after


@pytest.mark.parametrize("name", TASKS)
def test_integrating_the_true_change_leads_to_the_next_state(name):
    for motion, z, action, after, step, _ in drive(name, 20):
        y = motion.truth(z, after)
        assert y.shape == (3, motion.outputs)
        np.testing.assert_allclose(motion.move(z, action, y), after, atol=2e-6)
        np.testing.assert_allclose(motion.e(after), step.feature, rtol=1e-6)
        assert motion.x(after).shape == (3, motion.inputs)


@pytest.mark.parametrize(("name", "ahead"), [("point-goal", (1, 0)), ("car-goal", (0, -1))])
def test_a_robot_that_drives_ahead_moves_ahead_in_its_own_frame(name, ahead):
    """Whatever its heading: so the magnetometer's sign and the frame's axes are right."""
    world = World(find_task(name), 8, "fixed", threads=1)
    motion = motion_of(world.task)
    step = world.reset(seed=3)
    z = motion.start(step.obs, step.feature)
    drive_on = np.array([[1.0, 0.0]] * 8) if name.startswith("point") else np.ones((8, 2))
    for _ in range(30):
        step = world.step(drive_on)
        before, z = z, motion.observe(z, drive_on, step.obs, step.feature)
    moved = np.asarray(motion.truth(before, z))[:, :2]
    forward = moved @ np.array(ahead)
    assert (forward > 1e-3).all()
    assert (np.abs(moved @ np.array([ahead[1], ahead[0]])) < 0.1 * forward).all()
    speed = np.linalg.norm(moved, axis=1) / world.seconds_per_step
    np.testing.assert_allclose(speed, np.linalg.norm(np.asarray(motion.parts(z)[1])[:, :2], axis=1),
                               rtol=0.1)  # fmt: skip


@given(
    angle=st.floats(-10, 10),
    shift=st.tuples(st.floats(-3, 3), st.floats(-3, 3)),
    step=st.tuples(st.floats(-1, 1), st.floats(-1, 1), st.floats(-3, 3)),
)
def test_a_change_does_not_depend_on_where_and_how_turned_a_robot_is(angle, shift, step):
    """The same step, seen in a world that is turned and shifted, is the same y."""

    def look(obs, feature):
        return feature, obs[..., 0], obs[..., 1:]

    motion = planar("cart", actions=1, now=1, look=look)
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s], [s, c]])

    def state(position, heading):
        return motion.start(np.array([heading, 0.5]), np.array(position))

    before, after = np.array([0.3, -0.2]), np.array(step[:2])
    plainly = motion.truth(state(before, 0.4), state(after, 0.4 + step[2]))
    turned = motion.truth(
        state(turn @ before + shift, 0.4 + angle),
        state(turn @ after + shift, 0.4 + step[2] + angle),
    )
    np.testing.assert_allclose(plainly, turned, atol=2e-5)


def test_history_shifts_by_one_step():
    motion = planar("cart", 1, 1, lambda obs, feature: (feature, obs[..., 0], obs[..., 1:]), 2)
    place = np.zeros(2)
    z = motion.start(np.array([0.0, 7.0]), place)
    np.testing.assert_allclose(motion.x(z), [7, 7, 0, 7, 0])
    z = motion.observe(z, np.array([0.1]), np.array([0.0, 8.0]), place)
    np.testing.assert_allclose(motion.x(z), [8, 7, 0.1, 7, 0], rtol=1e-6)
    z = motion.observe(z, np.array([0.2]), np.array([0.0, 9.0]), place)
    np.testing.assert_allclose(motion.x(z), [9, 8, 0.2, 7, 0.1], rtol=1e-6)


def test_plain_motion_predicts_the_difference_from_its_guess():
    motion = plain("tank", actions=1, now=2, features=1, guess=lambda obs: 2 * obs[..., :1])
    z = motion.start(np.array([1.0, 5.0]), np.array([0.0]))
    after = motion.observe(z, np.array([0.0]), np.array([1.5, 4.0]), np.array([2.5]))
    np.testing.assert_allclose(motion.truth(z, after), [0.5, 0.5, -1.0])


def test_numbers_that_are_not_finite_stay_where_they_are():
    motion = motion_of(find_task("point-goal"))
    obs = np.zeros((2, 44))
    obs[1, 3] = np.nan
    z = motion.start(obs, np.zeros((2, 2)))
    assert jnp.isfinite(z[0]).all()
    assert not jnp.isfinite(z[1]).all()
