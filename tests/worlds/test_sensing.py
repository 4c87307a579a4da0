import math

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipshield.worlds.catalogue import find_task
from hipshield.worlds.margins import Scene
from hipshield.worlds.objectives import View
from hipshield.worlds.sensing import _quaternion_matrix, lidar, look, trace_counts
from hipshield.worlds.task import Lidar
from hipshield.worlds.world import World


def view_at(x=0.0, y=0.0, heading=0.0, z=0.1):
    c, s = math.cos(heading), math.sin(heading)
    rotation = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])
    return View(np.array([x, y, z]), rotation, *[None] * (len(View._fields) - 2))


def read(settings, centres, view):
    with jax.enable_x64(True):
        return np.asarray(lidar(settings, np.reshape(centres, (-1, 2)), view))


def plain_lidar(settings, centres, x, y, heading):
    """The same by a plain loop in Python floats."""
    bins = [0.0] * settings.bins
    width = 2 * math.pi / settings.bins
    for cx, cy in centres:
        distance = math.hypot(cx - x, cy - y)
        turns = ((math.atan2(cy - y, cx - x) - heading) % (2 * math.pi)) / width
        reading = max(0.0, settings.reach - distance) / settings.reach
        index, part = int(turns) % settings.bins, turns - int(turns)
        shares = [(index, 1.0)]
        if settings.alias:
            shares += [((index + 1) % settings.bins, part), ((index - 1) % settings.bins, 1 - part)]
        for i, share in shares:
            bins[i] = max(bins[i], share * reading)
    return np.array(bins)


def test_hand_worked_readings():
    # 1.5 m ahead of a robot that looks along x: half the reach of 3 m, in bin 0. Its direction
    # is the bin's very beginning, so the lower neighbour gets all of it, the upper nothing.
    values = read(Lidar(), [[1.5, 0.0]], view_at())
    assert values[[0, 15, 1]] == pytest.approx([0.5, 0.5, 0.0])
    assert values[2:15] == pytest.approx(0)
    # A quarter turn and half a bin: bin 4 of 16, shared half and half.
    angle = math.pi / 2 + math.pi / 16
    values = read(Lidar(), [[2 * math.cos(angle), 2 * math.sin(angle)]], view_at())
    assert values[[3, 4, 5]] == pytest.approx([1 / 6, 1 / 3, 1 / 6])
    # Out of reach; and the nearer of two in one direction.
    assert read(Lidar(), [[3.1, 0.0]], view_at()) == pytest.approx(0)
    near = read(Lidar(), [[2.0, 0.1], [1.0, 0.05]], view_at())
    assert near[0] == pytest.approx((3 - math.hypot(1, 0.05)) / 3)
    # No objects, no reading.
    assert read(Lidar(bins=8), [], view_at()).shape == (8,)


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=6),
    st.floats(-1, 1),
    st.floats(-1, 1),
    st.floats(-math.pi, math.pi),
    st.integers(3, 20),
    st.booleans(),
)
def test_readings_are_those_of_a_plain_loop(centres, x, y, heading, bins, alias):
    settings = Lidar(bins=bins, reach=4.0, alias=alias)
    mine = read(settings, centres, view_at(x, y, heading))
    plain = plain_lidar(settings, centres, x, y, heading)
    # Without aliasing, an object right on an edge may fall into either bin.
    moved = mine if alias else np.maximum(np.roll(mine, 1), np.roll(mine, -1))
    assert np.all((np.abs(mine - plain) < 1e-9) | (np.abs(moved - plain) < 1e-9))


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-1, 1), st.floats(-math.pi, math.pi))
def test_turning_the_robot_by_a_bin_shifts_the_readings(cx, cy, x, heading):
    before = read(Lidar(), [[cx, cy]], view_at(x, 0.0, heading))
    after = read(Lidar(), [[cx, cy]], view_at(x, 0.0, heading + 2 * math.pi / 16))
    # At a bin's edge the full reading stands in either of two bins, hence the tolerance there.
    if np.abs(np.roll(before, -1) - after).max() > 1e-6:
        assert np.sort(before) == pytest.approx(np.sort(after), abs=1e-6)


def test_quaternion_matrix():
    half = math.sqrt(0.5)  # a quarter turn about z: x goes to y, y to −x
    matrix = np.reshape(_quaternion_matrix(np.array([half, 0, 0, half])), (3, 3))
    np.testing.assert_allclose(matrix, [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-6)


@pytest.mark.parametrize("name", ["point-push", "car-button", "half-cheetah-velocity"])
def test_a_robot_gets_the_same_bits_in_any_batch(name):
    """XLA compiles other code for another batch size; sensing is written so that it agrees."""
    world = World(find_task(name, 2), robots=70)
    world.reset(seed=0)
    step = world.step(np.random.default_rng(0).uniform(-1, 1, (70, world.actions)))
    view, scene = world.view(), world.scene()
    for size in (1, 2, 3, 8, 13, 33):
        rows = slice(5, 5 + size)
        obs, nu = look(world.task, View(*(x[rows] for x in view)), Scene(*(x[rows] for x in scene)))
        np.testing.assert_array_equal(obs, step.obs[rows])
        np.testing.assert_array_equal(nu, step.margin[rows])


def test_compiled_once_for_a_task_and_batch_size():
    task = find_task("car-button", 2)
    world = World(task, robots=6)
    world.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(30):
        world.step(rng.uniform(-1, 1, (6, 2)))
    world.reset()
    assert trace_counts[task.name, 6] == 1
    other = World(task, robots=6, split="ood")  # a second world shares the compilation
    other.reset(seed=0)
    assert trace_counts[task.name, 6] == 1
