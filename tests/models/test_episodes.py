"""Episodes turned into states: all at once is what following step by step gives."""

import numpy as np
import pytest

from hipshield.errors import HipshieldError
from hipshield.models.episodes import Episode, rows_of, states_of, states_of_all
from hipshield.models.robots import motion_of_robot


def episode(robot, steps=9, seed=0):
    motion = motion_of_robot(robot)
    rng = np.random.default_rng(seed)
    size = {"point": 12, "car": 24, "half-cheetah": 17}[robot]
    features = 1 if robot == "half-cheetah" else 2
    make = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    return motion, Episode(
        obs=make(steps + 1, size),
        feature=make(steps + 1, features),
        action=make(steps, motion.actions),
        reward=make(steps),
        cost=np.zeros(steps, np.float32),
        phi=make(5),
    )


@pytest.mark.parametrize("robot", ["point", "car", "half-cheetah"])
def test_all_at_once_is_step_by_step(robot):
    motion, e = episode(robot)
    z = motion.start(e.obs[0], e.feature[0])
    expected = [z]
    for t, action in enumerate(e.action):
        z = motion.observe(z, action, e.obs[t + 1], e.feature[t + 1])
        expected.append(z)
    np.testing.assert_allclose(states_of(motion, e.obs, e.feature, e.action), expected, rtol=1e-6)


def test_rows_are_the_transitions_of_the_states():
    motion, first = episode("car")
    _, second = episode("car", seed=1)
    states = states_of_all(motion, [first, second])
    rows = rows_of(motion, states)
    assert rows.x.shape == (2, 9, motion.inputs)
    assert rows.y.shape == (2, 9, motion.outputs)
    for i in range(2):
        for t in (0, 4, 8):
            before, after = states.z[i, t], states.z[i, t + 1]
            np.testing.assert_allclose(rows.y[i, t], motion.truth(before, after), atol=1e-6)
            np.testing.assert_array_equal(rows.x[i, t], motion.x(before))
            np.testing.assert_allclose(motion.move(before, rows.action[i, t], rows.y[i, t]), after,
                                       atol=1e-5)  # fmt: skip


def test_episodes_that_cannot_be_fitted_together():
    motion, e = episode("point")
    _, shorter = episode("point", steps=5)
    with pytest.raises(HipshieldError, match="Episode 1 has 5 steps, the first has 9"):
        states_of_all(motion, [e, shorter])
    with pytest.raises(HipshieldError, match="no episode"):
        states_of_all(motion, [])
