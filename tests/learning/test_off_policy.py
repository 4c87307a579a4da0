"""Off-policy learning: TD3's targets and losses against plain float64, and the replay."""

from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from synthetic import mlp64

from hipshield.errors import HipshieldError
from hipshield.learning.config import TrainConfig
from hipshield.learning.files import keep_batches, read_batch, write_batch
from hipshield.learning.networks import Critic, Squashed
from hipshield.learning.replay import draw_rows, empty_replay, read_rows, remember
from hipshield.learning.state import Batch
from hipshield.learning.twin_delayed import (
    Transitions,
    TwinDelayed,
    TwinProblem,
    fit_critics,
    improve_twin,
    policy_loss,
    start_twin_state,
    targets,
)
from hipshield.mlp import Mlp

PROBLEM = TwinProblem(
    step=TwinDelayed(smoothing=0.4, bound=0.5, tau=0.1),
    policy=Squashed(Mlp((3, 4, 2))),
    critic=Critic(Mlp((5, 4, 1))),
    gamma=0.9,
    cost_gamma=0.8,
    penalty=5.0,
    delta=-0.4,
)
CONFIG = TrainConfig(task="point-circle", epoch_steps=1000)


@lru_cache
def make_case(seed=0, rows=7):
    """A state whose targets are not its networks, and a minibatch."""
    draw = np.random.default_rng(seed)
    other = start_twin_state(PROBLEM, seed + 1)
    state = start_twin_state(PROBLEM, seed)._replace(
        theta_target=other.theta * 2, critics_target=other.critics * 2
    )
    batch = Transitions(
        x=draw.normal(size=(rows, 3)),
        action=draw.uniform(-1, 1, (rows, 2)),
        reward=draw.normal(size=rows),
        cost=draw.integers(0, 2, rows) * 1.0,
        next_x=draw.normal(size=(rows, 3)),
    )
    batch = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), batch)
    return state, batch, jnp.asarray(2 * draw.normal(size=(rows, 2)), jnp.float32)


def q64(theta, x, action):
    return mlp64((5, 4, 1), theta, np.concatenate([x, action], 1))[:, 0]


def pi64(theta, x):
    return np.tanh(mlp64((3, 4, 2), theta, x))


def test_targets_against_a_plain_loop():
    state, batch, noise = make_case()
    reward, cost = targets(PROBLEM, state, batch, noise)
    mean = pi64(state.theta_target, batch.next_x)
    assert (np.abs(0.4 * noise) > 0.5).any()  # the noise's bound matters
    for i in range(len(noise)):
        spread = [min(max(0.4 * float(n), -0.5), 0.5) for n in noise[i]]
        smoothed = [min(max(m + s, -1.0), 1.0) for m, s in zip(mean[i], spread, strict=True)]
        seen = np.asarray(batch.next_x[i : i + 1], np.float64)
        twins = [q64(t, seen, np.array([smoothed]))[0] for t in state.critics_target[:2]]
        assert float(reward[i]) == pytest.approx(
            float(batch.reward[i]) + 0.9 * min(twins), abs=1e-5
        )
        later = q64(state.critics_target[2], seen, mean[i : i + 1])[0]  # without the noise
        assert float(cost[i]) == pytest.approx(float(batch.cost[i]) + 0.8 * later, abs=1e-5)


def test_the_policys_loss_is_td3s_where_nothing_is_penalised():
    state, batch, _ = make_case()
    action = pi64(state.theta, batch.x)
    reward, cost = (q64(state.critics[i], np.asarray(batch.x), action) for i in (0, 2))
    assert 0 < (cost > -0.4).sum() < len(cost)  # the penalty has both its pieces
    plain = policy_loss(replace(PROBLEM, penalty=0.0))
    assert float(plain(state.theta, state.critics, batch.x)) == pytest.approx(
        -reward.mean(), abs=1e-6
    )
    whole = policy_loss(PROBLEM)(state.theta, state.critics, batch.x)
    wanted = (-reward + 5.0 * np.maximum(cost + 0.4, 0.0)).mean()
    assert float(whole) == pytest.approx(wanted, abs=1e-5)
    loose = policy_loss(replace(PROBLEM, delta=100.0))  # nothing exceeds δ
    np.testing.assert_array_equal(
        jax.grad(loose)(state.theta, state.critics, batch.x),
        jax.grad(plain)(state.theta, state.critics, batch.x),
    )


def test_a_step_moves_against_the_gradients_and_targets_follow():
    """Adam's first step is the rate times the gradient's sign; τ = 0.1 of it reaches a target."""
    state, batch, noise = make_case()
    reward, cost = targets(PROBLEM, state, batch, noise)
    fitted, metrics = fit_critics(PROBLEM, state, batch, noise)
    pairs = jnp.concatenate([batch.x, batch.action], 1)

    def error(theta, target):
        return ((PROBLEM.critic.apply(theta, pairs) - target) ** 2).mean()

    for i, target in enumerate((reward, reward, cost)):
        gradient = jax.grad(error)(state.critics[i], target)
        assert (jnp.abs(gradient) > 1e-5).all()
        np.testing.assert_allclose(
            fitted.critics[i] - state.critics[i], -3e-4 * np.sign(gradient), atol=2e-6
        )
    assert float(metrics["cost_loss"]) == pytest.approx(float(error(state.critics[2], cost)))
    np.testing.assert_array_equal(fitted.critics_target, state.critics_target)

    moved = improve_twin(PROBLEM, fitted, batch.x)
    gradient = jax.grad(policy_loss(PROBLEM))(state.theta, fitted.critics, batch.x)
    np.testing.assert_allclose(moved.theta - state.theta, -3e-4 * np.sign(gradient), atol=2e-6)
    for new, old, own in (
        (moved.theta_target, state.theta_target, moved.theta),
        (moved.critics_target, state.critics_target, fitted.critics),
    ):
        np.testing.assert_allclose(new, 0.9 * old + 0.1 * own, atol=1e-6)


def make_batch(epoch, steps=4, robots=3):
    """Experience that says where it is from: epoch, step and robot are in every number."""
    t, r = np.meshgrid(np.arange(steps + 1), np.arange(robots), indexing="ij")
    name = np.float32(1000 * epoch + 10 * t + r)
    obs = np.stack([name, -name], -1)
    action, signal = obs[:-1] + 0.25, name[:-1]
    return Batch(obs[:-1], obs[-1], action, signal + 0.5, signal + 0.75, action)


def test_every_transition_is_of_one_robot_and_the_last_has_a_next_observation():
    replay = empty_replay(2, steps=4, robots=3, inputs=2, actions=2)
    for epoch in range(3):
        replay = remember(replay, make_batch(epoch), epoch)
    obs, action, reward, cost, after = read_rows(replay, jnp.arange(2 * 4 * 3))
    name = np.asarray(obs[:, 0])
    assert sorted({int(n) // 1000 for n in name}) == [1, 2]  # the newest two
    assert len(set(name)) == 24  # every transition once
    np.testing.assert_array_equal(after[:, 0], name + 10)  # the next step of the same robot
    np.testing.assert_array_equal(action, np.asarray(obs) + 0.25)
    np.testing.assert_array_equal([reward, cost], [name + 0.5, name + 0.75])
    again = empty_replay(2, steps=4, robots=3, inputs=2, actions=2)
    for epoch in (1, 2):  # as from files
        again = remember(again, make_batch(epoch), epoch)
    jax.tree.map(np.testing.assert_array_equal, replay, again)


def test_rows_are_drawn_from_filled_slots_only_and_evenly():
    replay = empty_replay(5, steps=4, robots=3, inputs=2, actions=2)
    rows = np.asarray(draw_rows(jax.random.key(0), replay, 2, (3, 8000)))
    assert set(np.unique(rows)) == set(range(24))
    # 24 000 draws of 24: the standard deviation of a count is 31.
    assert np.abs(np.bincount(rows.ravel()) - 1000).max() < 155


def test_replay_files_are_of_this_run_or_refused(tmp_path):
    write_batch(tmp_path, CONFIG, 7, make_batch(7))
    jax.tree.map(np.testing.assert_array_equal, read_batch(tmp_path, CONFIG, 7), make_batch(7))
    with pytest.raises(HipshieldError, match=r"no replay at .*00008.* start it anew"):
        read_batch(tmp_path, CONFIG, 8)
    with pytest.raises(HipshieldError, match="not epoch 7 of this run"):
        read_batch(tmp_path, replace(CONFIG, seed=1), 7)
    path = tmp_path / "replay" / "00007.safetensors"
    good = path.read_bytes()
    (path.parent / "00008.safetensors").write_bytes(good)
    with pytest.raises(HipshieldError, match="not epoch 8 of this run"):
        read_batch(tmp_path, CONFIG, 8)
    for bad in (good[: len(good) // 2], b""):
        path.write_bytes(bad)
        with pytest.raises(HipshieldError, match=r"not a readable replay.* start it anew"):
            read_batch(tmp_path, CONFIG, 7)


def test_only_experience_that_is_needed_stays(tmp_path):
    for epoch in range(4):
        write_batch(tmp_path, CONFIG, epoch, make_batch(epoch))
    folder = tmp_path / "replay"
    (folder / "00009.safetensors.part").write_bytes(b"half")
    keep_batches(tmp_path, range(2, 4))
    assert sorted(p.name for p in folder.iterdir()) == ["00002.safetensors", "00003.safetensors"]
    keep_batches(tmp_path, range(0))
    assert not folder.exists()
    keep_batches(tmp_path, range(0))  # nothing to do
