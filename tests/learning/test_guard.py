"""The guard: shields in the training loop, and what of them reaches the policy."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from hipshield.errors import HipshieldError
from hipshield.learning.acting import Pilot
from hipshield.learning.collect import Sight, collect
from hipshield.learning.config import TrainConfig
from hipshield.learning.context import find_context
from hipshield.learning.guard import make_guard
from hipshield.learning.train import train
from hipshield.models.data import record
from hipshield.models.episodes import rows_of, states_of_all
from hipshield.models.fit import FitSettings, fit
from hipshield.models.function_encoder import FunctionEncoder
from hipshield.models.robots import motion_of
from hipshield.models.store import Model, save_model
from hipshield.safety import batch as shields
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.scripted import make_random
from hipshield.worlds.world import World

TASK = replace(find_task("point-circle"), episode_steps=160)
FEW = {"horizon": 40, "durations": (5, 20), "samples": 3}


@pytest.fixture(scope="module")
def model():
    """A small function encoder of the Point."""
    world = World(TASK, 24, threads=1)
    world.reset(seed=0)
    motion = motion_of(TASK)
    states = states_of_all(motion, record(world, make_random(0)))
    predictor = FunctionEncoder(motion, hidden=(16, 16), support=50)
    settings = FitSettings(iterations=300, episodes=8, steps=100, every=100)
    params = fit(predictor, rows_of(motion, states), settings)
    return Model(predictor, params, {"prior": {"1": 0.004, "40": 0.05}})


def outward(x, noise):
    """A policy that drives at full speed, wherever that leads."""
    return np.tile(np.array([[1.0, 0.0]], np.float32), (len(x), 1)) + 0.1 * noise


def drive(guard, model, seed=0, robots=6):
    world = World(TASK, robots, threads=1)
    sight = Sight(find_context("none"), None, model)
    return collect(world, Pilot(outward, guard=guard), sight, steps=160, seed=seed, epoch=0)


def test_the_plan_shield_keeps_a_reckless_driver_inside_the_walls(model):
    bare, free = drive(None, None)
    safe, kept = drive(make_guard("plan", model, **FEW), model)
    assert free.costs.sum() > 100
    assert kept.costs.sum() < 0.05 * free.costs.sum()
    assert kept.facts["intervened"] > 0.1
    assert set(kept.facts) == {"triggered", "intervened", "empty", "unbounded"}
    assert all(0 <= v <= 1 for v in kept.facts.values())
    np.testing.assert_array_equal(bare.executed, np.clip(bare.action, -1, 1))
    # The batch has what the policy drew; what was done stands beside it.
    changed = (safe.executed != np.clip(safe.action, -1, 1)).any(-1)
    assert changed.mean() == pytest.approx(kept.facts["intervened"], abs=0.02)
    assert np.abs(safe.executed).max() <= 1


def test_a_shield_that_never_triggers_changes_nothing(model):
    bare, _ = drive(None, None)
    idle, tally = drive(make_guard("paper", model, trigger=0.0, samples=3), model)
    clear = tally.facts["triggered"]
    assert clear < 1  # inside the walls nothing is checked; beyond them everything is
    inside = idle.cost[:20].sum(0) == 0
    assert inside.any()
    np.testing.assert_array_equal(idle.executed[:20][:, inside], bare.executed[:20][:, inside])


def test_the_same_seed_is_the_same_bits_and_it_compiles_once(model):
    guard = make_guard("plan", model, **(FEW | {"horizon": 5}))
    shields.trace_counts.clear()
    first, _ = drive(guard, model)
    again, _ = drive(make_guard("plan", model, **(FEW | {"horizon": 5})), model)
    other, _ = drive(guard, model, seed=1)
    np.testing.assert_array_equal(first.executed, again.executed)
    assert not np.array_equal(first.executed, other.executed)
    assert set(shields.trace_counts.values()) == {1}


@pytest.mark.parametrize("shield", ["paper", "plan"])
def test_training_inside_a_shield_resumes_to_the_same_bits(model, shield, tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(path, model)
    config = TrainConfig(task="point-circle", shield=shield, model=str(path), steps=2000, sro=1.0,
                         epoch_steps=1000, hidden=(8,), context="encoder")  # fmt: skip
    assert config.name == f"point-circle_rcpo+sro1+{shield}_encoder_s0"

    class Stop(Exception):
        pass

    def stop(row):
        raise Stop

    whole = train(config, tmp_path / "whole")
    with pytest.raises(Stop):
        train(config, tmp_path / "part", show=stop)
    part = train(config, tmp_path / "part", resume=True)
    assert jax.tree.all(jax.tree.map(np.array_equal, part.policy.state, whole.policy.state))
    assert part.progress == whole.progress
    assert {"triggered", "intervened", "empty"} <= set(whole.progress[0])


def test_shields_that_cannot_be(model):
    with pytest.raises(HipshieldError, match="Did you mean 'plan'"):
        TrainConfig(shield="plam", model="m.safetensors")
    with pytest.raises(HipshieldError, match="The shield 'plan' needs --model FILE"):
        TrainConfig(shield="plan")
    with pytest.raises(HipshieldError, match="'usl' learns from executed actions"):
        TrainConfig(algo="usl", shield="plan", model="m.safetensors")
    with pytest.raises(HipshieldError, match="give it one"):
        make_guard("paper", None)
    assert make_guard("none", None) is None


def test_the_prior_between_two_measured_leads_is_the_later_ones(model):
    guard = make_guard("plan", model, horizon=50)
    by_lead = dict(zip(guard.shield.leads, guard.prior.tolist(), strict=True))
    assert by_lead[1] == pytest.approx(0.004)
    assert by_lead[5] == pytest.approx(0.05)
    assert by_lead[50] == np.inf  # beyond the last nothing was measured
