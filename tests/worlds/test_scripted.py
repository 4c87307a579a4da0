import numpy as np
import pytest

from hipshield.errors import TaskError
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.scripted import find_policy
from hipshield.worlds.world import World


def mean_return(name, policy, steps=300):
    world = World(find_task(name), robots=16)
    world.reset(seed=0)
    act, total = find_policy(policy), 0.0
    for _ in range(steps):
        total += world.step(act(world)).reward.mean()
    return total


@pytest.mark.parametrize(
    "name",
    [
        *("point-goal", "car-goal", "point-button", "car-button"),
        *("point-circle", "car-circle", "half-cheetah-velocity"),
    ],
)
def test_the_driver_earns_more_than_chance(name):
    assert mean_return(name, "scripted") > mean_return(name, "random") + 1


def test_a_random_policy_repeats_with_its_seed():
    world = World(find_task("point-goal"), robots=2)
    one, same, other = (find_policy("random", s)(world) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_unknown_policies():
    with pytest.raises(TaskError, match="Did you mean 'scripted'"):
        find_policy("scriptd")
