import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import hipshield  # noqa: F401  (registers the environments)
from hipshield.errors import ActionError, NotResetError, TaskError
from hipshield.worlds.catalogue import LEVELS, TASK_NAMES, find_task, gymnasium_id
from hipshield.worlds.gym_api import BatchedEnv, SingleEnv
from hipshield.worlds.safety_gym_api import BatchedSixTuple, SixTuple

IDS = [gymnasium_id(name, level) for name in TASK_NAMES for level in LEVELS]


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasiums_own_checker_passes(env_id):
    env = gymnasium.make(env_id, render_mode="rgb_array", backend="drawing", size=(64, 64))
    with warnings.catch_warnings():
        # Sensors have no bounds, as in Gymnasium's own MuJoCo environments.
        warnings.filterwarnings("ignore", message=".*infinity.*")
        check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("env_id", IDS)
def test_what_a_step_returns(env_id):
    env = gymnasium.make(env_id, split="ood")
    obs, info = env.reset(seed=3)
    assert obs in env.observation_space
    phi = info["hidden_parameters"]
    obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert obs in env.observation_space
    assert (type(reward), terminated, truncated) == (float, False, False)
    assert info["cost"] == (info["margin"] <= 0)
    np.testing.assert_array_equal(info["hidden_parameters"], phi)
    assert sum(info["reward_terms"].values()) == pytest.approx(reward)
    assert "fault" not in info


def test_batched_robots_are_single_environments():
    batch = gymnasium.make_vec("hipshield/CarGoal2-v0", num_envs=3, split="ood")
    single = gymnasium.make("hipshield/CarGoal2-v0", split="ood")
    obs, _ = batch.reset(seed=4)
    one, _ = single.reset(seed=6)
    np.testing.assert_array_equal(obs[2], one)
    for _ in range(10):
        actions = np.full((3, 2), 0.7, np.float32)
        obs, rewards, _, _, infos = batch.step(actions)
        one, reward, _, _, info = single.step(actions[2])
        np.testing.assert_array_equal(obs[2], one)
        assert (rewards[2], infos["margin"][2]) == (reward, info["margin"])


def test_saved_environments_go_on_alike():
    env = SingleEnv("point-push")
    env.reset(seed=0)
    env.step(np.array([1.0, 0.2]))
    snapshot = env.save()
    want = [env.step(np.array([1.0, -0.3]))[0] for _ in range(5)]
    env.load(snapshot)
    for obs in want:
        np.testing.assert_array_equal(env.step(np.array([1.0, -0.3]))[0], obs)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_autoreset_modes_step_by_step(mode):
    """Hand-worked table for episodes of three steps, robots in lockstep.

    step:        1  2  3      4              5
    SAME_STEP    -  -  ends*  1st of next    2nd of next      (* already shows the new episode)
    NEXT_STEP    -  -  ends   reset, r = 0   1st of next
    DISABLED     -  -  ends   refused until reset
    """
    env = BatchedEnv(2, "point-goal", autoreset_mode=mode, max_episode_steps=3)
    first, _ = env.reset(seed=0)
    act = np.full((2, 2), 0.5)
    for _ in range(2):
        obs, _, _, truncated, info = env.step(act)
        assert not truncated.any()
        assert "final_obs" not in info
    before = obs
    obs, reward, terminated, truncated, info = env.step(act)
    assert truncated.all()
    assert not terminated.any()
    assert (reward != 0).all()
    if mode is AutoresetMode.SAME_STEP:
        last = np.stack(info["final_obs"])
        assert info["_final_obs"].all()
        lidar = env.world.parts["goal_lidar"]  # one step on, while the new episode is elsewhere
        assert np.abs(last - before)[:, lidar].max() < 0.1
        assert not np.array_equal(last, obs)
        assert "margin" in info["final_info"]
        assert env.world.elapsed.tolist() == [0, 0]
        _, _, _, truncated, info = env.step(act)
        assert not truncated.any()
        assert env.world.elapsed.tolist() == [1, 1]
    elif mode is AutoresetMode.NEXT_STEP:
        assert "final_obs" not in info
        with pytest.raises(NotResetError):
            env.save()
        fresh, reward, _, truncated, info = env.step(act)
        assert (reward == 0).all()
        assert not truncated.any()
        assert env.world.elapsed.tolist() == [0, 0]
        assert not np.array_equal(fresh, obs)
        env.step(act)
        assert env.world.elapsed.tolist() == [1, 1]
    else:
        with pytest.raises(NotResetError, match=r"robots \[0, 1\]"):
            env.step(act)
        env.reset(options={"reset_mask": np.array([True, False])})
        with pytest.raises(NotResetError, match=r"robots \[1\]"):
            env.step(act)
        env.reset(options={"reset_mask": np.array([False, True])})
        env.step(act)
    again, _ = env.reset(seed=0)
    np.testing.assert_array_equal(again, first)


def test_the_ended_steps_cost_and_reward_survive_autoreset():
    same = BatchedEnv(64, "point-circle", max_episode_steps=40)
    off = BatchedEnv(
        64, "point-circle", max_episode_steps=40, autoreset_mode=AutoresetMode.DISABLED
    )
    same.reset(seed=0)
    off.reset(seed=0)
    act = np.tile([1.0, 0.0], (64, 1))
    for _ in range(40):
        a, b = same.step(act), off.step(act)
    np.testing.assert_array_equal(a[1], b[1])
    np.testing.assert_array_equal(a[4]["cost"], b[4]["cost"])
    np.testing.assert_array_equal(np.stack(a[4]["final_obs"]), b[0])
    np.testing.assert_array_equal(a[4]["final_info"]["margin"], b[4]["margin"])
    assert b[4]["cost"].any()


def test_a_bad_action_is_an_error_for_one_and_a_flag_for_many():
    env = SingleEnv("car-goal")
    env.reset(seed=0)
    with pytest.raises(ActionError, match="finite"):
        env.step(np.array([np.nan, 0]))
    with pytest.raises(ActionError, match=r"shape \(2,\)"):
        env.step(np.zeros(3))
    batch = BatchedEnv(3, "car-goal")
    batch.reset(seed=0)
    actions = np.zeros((3, 2))
    actions[1] = np.inf
    _, _, _, _, info = batch.step(actions)
    assert info["_fault"].tolist() == [False, True, False]
    assert "not finite" in info["fault"][1]
    assert batch.world.elapsed.tolist() == [1, 0, 1]


def test_bad_arguments_say_what_to_do():
    with pytest.raises(TaskError, match="Did you mean 'hidden'"):
        SingleEnv("car-goal").reset(options={"hiden": 1})
    with pytest.raises(TaskError, match="render_mode"):
        SingleEnv("car-goal", render_mode="human")
    with pytest.raises(TaskError, match="Did you mean"):
        SingleEnv("car-gaol")
    with pytest.raises(TaskError, match="split"):
        gymnasium.make("hipshield/CarGoal1-v0", split="test")


def test_hidden_parameters_by_option():
    env = gymnasium.make("hipshield/CarGoal1-v0")
    _, info = env.reset(seed=0, options={"hidden": [1, 1, 2, 1, 1]})
    assert info["hidden_parameters"].tolist() == [1, 1, 2, 1, 1]


def test_six_tuples():
    env = SixTuple(gymnasium.make("hipshield/PointCircle1-v0"))
    env.reset(seed=0)
    costs = []
    for _ in range(300):
        _, _, cost, _, _, info = env.step(np.array([1.0, 0.0]))
        assert cost == info["cost"]
        costs.append(cost)
    assert set(costs) == {0.0, 1.0}
    batch = BatchedSixTuple(gymnasium.make_vec("hipshield/PointGoal1-v0", num_envs=2))
    batch.reset(seed=0)
    obs, _, cost, *_ = batch.step(np.zeros((2, 2)))
    assert obs.shape == (2, 44)
    assert cost.shape == (2,)


def test_render_gives_frames():
    env = SingleEnv("point-goal", render_mode="rgb_array", size=(96, 64), backend="drawing")
    env.reset(seed=0)
    frame = env.render()
    assert (frame.shape, frame.dtype) == ((64, 96, 3), np.uint8)
    assert frame.std() > 5
    env.close()
    assert SingleEnv(find_task("point-goal")).render() is None


def test_importing_the_package_is_light():
    """Registration must not load the simulator: a program may only want the task list."""
    import subprocess
    import sys

    code = "import hipshield, sys; print('mujoco' in sys.modules, 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
