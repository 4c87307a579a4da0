import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipshield.worlds.catalogue import TASK_NAMES, find_task
from hipshield.worlds.margins import Scene, feature_size, make_scene, margin
from hipshield.worlds.scripted import make_random
from hipshield.worlds.world import World

points = st.tuples(st.floats(-3, 3), st.floats(-3, 3)).map(np.array)


def scene(obstacles=(), radius=0.2, wall=np.inf, speed=np.inf):
    return Scene(np.reshape(obstacles, (-1, 2)), np.array(radius), np.array(wall), np.array(speed))


def test_hand_worked_values():
    # 3-4-5 triangle: 0.5 m from the only hazard's centre, which reaches 0.2 m.
    assert margin(np.array([0.3, 0.4]), scene([[0, 0]])) == pytest.approx(0.3, abs=1e-6)
    # The nearer of two hazards counts; inside it the margin is negative.
    value = margin(np.array([0.9, 0.0]), scene([[0, 0], [1, 0]]))
    assert value == pytest.approx(-0.1, abs=1e-6)
    # The wall binds on the larger coordinate.
    assert margin(np.array([-1.0, 0.5]), scene(wall=1.125)) == pytest.approx(0.125, abs=1e-6)
    # The least of several margins: hazard at 0.3, wall at 0.1.
    both = margin(np.array([0.5, 0.0]), scene([[0, 0]], wall=0.6))
    assert both == pytest.approx(0.1, abs=1e-6)
    assert margin(np.array([2.5]), scene(speed=2.0)) == pytest.approx(-0.5)
    assert margin(np.array([0.0, 0.0]), scene()) == np.inf


@given(points, points, st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), max_size=5))
def test_margins_are_1_lipschitz(p, q, obstacles):
    e = scene(obstacles, wall=1.2)
    difference = abs(float(margin(p, e)) - float(margin(q, e)))
    assert difference <= np.linalg.norm(p - q) + 1e-5


@pytest.mark.parametrize("name", TASK_NAMES)
def test_cost_is_one_exactly_when_the_margin_is_not_positive(name):
    world = World(find_task(name), robots=16, split="ood")
    step, policy, seen = world.reset(seed=0), make_random(0), []
    scene_now = make_scene(world.task, world.layout.hazards)
    assert step.feature.shape == (16, feature_size(world.task))
    for _ in range(60):
        step = world.step(policy(world))
        np.testing.assert_array_equal(step.cost, step.margin <= 0)
        np.testing.assert_allclose(margin(step.feature, scene_now), step.margin, atol=1e-5)
        seen.append(step.cost)
    world.reset(seed=1)


def test_costs_happen():
    """The test above would pass with a cost that is never paid; this one would not."""
    world = World(find_task("point-circle"), robots=64)
    world.reset(seed=0)
    actions = np.tile([1.0, 0.0], (64, 1))
    paid = np.mean([world.step(actions).cost for _ in range(150)])
    assert 0.2 < paid < 0.95
