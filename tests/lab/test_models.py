"""Collecting, fitting, comparing, and training with what was fitted: the verbs end to end."""

from dataclasses import replace

import numpy as np
import pytest

from hipshield.cli import main
from hipshield.errors import HipshieldError
from hipshield.lab.collect import Collection, collect_dataset, with_manoeuvres
from hipshield.lab.compare_models import Comparison, acting, compare, gather, ratios
from hipshield.lab.fitting import Fitting, fit_to_file
from hipshield.lab.model_figures import draw_comparison
from hipshield.lab.model_summary import write_summary
from hipshield.lab.tables import read_table
from hipshield.learning.config import TrainConfig
from hipshield.learning.driver import Driver
from hipshield.learning.run import Run
from hipshield.learning.train import Extras, train
from hipshield.models.data import read_dataset
from hipshield.models.fit import FitSettings
from hipshield.models.store import load_model
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.world import World

TASK = "point-circle"  # its episodes are short
QUICK = FitSettings(iterations=60, episodes=4, steps=110, every=30)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A root with a small data set and two models fitted to it."""
    root = tmp_path_factory.mktemp("made")
    wanted = Collection(task=TASK, policy="random", episodes=10, explore=0.5)
    facts = collect_dataset(wanted, root / "data", root / "runs")
    data = root / "data" / wanted.name
    for name, seed in (("model", 0), ("other", 1)):
        out = root / f"{name}.safetensors"
        fit_to_file(Fitting(bases=2), data, TASK, out, replace(QUICK, seed=seed))
    return root, wanted, facts


def test_a_fitted_model_remembers_what_it_was_fitted_to(made):
    root, _, facts = made
    model = load_model(root / "model.safetensors")
    assert model.facts["data_hash"] == facts.hash
    assert (model.facts["task"], model.facts["episodes"]) == (TASK, 10)
    assert list(model.prior) == [1, 2, 3, 5, 8, 13, 20, 30, 40]
    radii = list(model.prior.values())
    assert 0 < radii[0] < radii[-1] < 1
    assert len(model.facts["curve"]) == 2


def test_collecting_is_the_same_bits_again_and_seeds_matter(made, tmp_path):
    root, wanted, facts = made
    again = collect_dataset(wanted, tmp_path, root / "runs")
    other = collect_dataset(replace(wanted, seed=1), tmp_path, root / "runs")
    assert again.hash == facts.hash != other.hash
    assert replace(wanted, seed=1).name.endswith("random-explore50-s1-v0")


def test_manoeuvres_leave_the_other_robots_alone():
    world = World(find_task(TASK), 4, threads=1)
    mixed = with_manoeuvres(lambda world: np.full((4, 2), 0.25), 0.5, seed=0)
    seen = []
    world.reset(seed=0)
    for _ in range(200):
        seen.append(mixed(world))
        world.step(seen[-1])
    seen = np.array(seen)
    assert (seen[:, 2:] == 0.25).all()
    own = (seen[:, :2] == 0.25).all(-1)
    assert 0.2 < own.mean() < 0.8  # half of the time, in stretches of 5 to 39 steps
    assert np.abs(seen).max() <= 1
    changes = (np.diff(seen[:, 0], axis=0) != 0).any(-1).sum()
    assert 200 / 39 - 1 <= changes <= 200 / 5


def test_verbs_from_data_to_a_policy_that_knows_its_robot(made, capsys, monkeypatch):
    root, _, _ = made
    monkeypatch.chdir(root)
    assert main(["collect", "--task", TASK, "--policy", "random", "--episodes", "3"]) == 0
    assert "collecting: 3 of 3 episodes" in capsys.readouterr().out
    data = "data/hipshield/point-circle/random-v0"
    code = main(
        ["fit", "--task", TASK, "--data", data, "--model", "mlp", "--oracle", "--iterations", "30",
         "--every", "30", "--episodes", "2", "--steps", "50"]
    )  # fmt: skip
    out = capsys.readouterr().out
    assert code == 0
    assert "wrote models/point-circle_mlp-oracle.safetensors" in out
    code = main(
        ["train", "--task", TASK, "--context", "encoder", "--model", "model.safetensors", "--steps",
         "2000", "--epoch-steps", "1000", "--hidden", "8"]
    )  # fmt: skip
    assert code == 0
    run = Run.load("runs/point-circle_rcpo_encoder_s0")
    assert run.policy.inputs == World(find_task(TASK)).observation_size + 2
    world = World(find_task(TASK), 2, "ood", threads=1)
    world.reset(seed=0)
    driver = Driver(run.policy)
    for _ in range(3):
        world.step(driver(world))
    assert main(["collect", "--task", TASK, "--policy", str(run.folder), "--episodes", "1"]) == 0
    assert main(["watch", TASK, "--policy", str(run.folder), "--steps", "5", "--out", "w.mp4",
                 "--backend", "drawing", "--size", "64"]) == 0  # fmt: skip
    assert main(["watch", TASK, "--policy", str(run.folder), "--steps", "5", "--out", "w.mp4",
                 "--backend", "drawing", "--size", "64", "--shield", "paper"]) == 0  # fmt: skip
    assert main(["watch", TASK, "--shield", "paper"]) == 2


def test_the_encoder_context_is_the_belief_that_following_gives(made, tmp_path):
    """A policy that is trained with b gets what identification, done by hand, believes."""
    from hipshield.learning.collect import Sight
    from hipshield.learning.context import begin_following, find_context, follow
    from hipshield.models import identify

    root, _, _ = made
    model = load_model(root / "model.safetensors")
    sight = Sight(find_context("encoder"), None, model)
    world = World(find_task(TASK), 3, threads=1)
    step = world.reset(seed=0)
    mine = begin_following(model, world, step)
    size = world.observation_size
    seen = sight.see(world, step.obs, mine, np.ones(3))
    np.testing.assert_array_equal(seen[:, size:], 0)  # the prior
    track = identify.begin(*model[:2], step.obs, step.feature, world.hidden)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        step = world.step(action)
        mine = follow(model, mine, action, step)
        track = identify.observe(*model[:2], track, action, step.obs, step.feature)
    b = sight.see(world, step.obs, mine, np.ones(3))[:, size:]
    np.testing.assert_array_equal(b, identify.beliefs(*model[:2], track))
    assert np.abs(b).max() > 0.1


def test_a_run_keeps_its_model_and_resumes_to_the_same_bits(made, tmp_path):
    root, _, _ = made
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes((root / "model.safetensors").read_bytes())
    config = TrainConfig(task=TASK, context="encoder", model=str(mine), steps=2000,
                         epoch_steps=1000, hidden=(8,))  # fmt: skip
    whole = train(config, tmp_path / "whole", extras=Extras(threads=1))

    class Stop(Exception):
        pass

    def stop(row):
        raise Stop

    with pytest.raises(Stop):
        train(config, tmp_path / "part", show=stop)
    mine.write_bytes((root / "other.safetensors").read_bytes())
    with pytest.raises(HipshieldError, match="begun with another model"):
        train(config, tmp_path / "part", resume=True)
    mine.unlink()
    part = train(config, tmp_path / "part", resume=True)
    np.testing.assert_array_equal(part.policy.theta, whole.policy.theta)
    assert part.progress == whole.progress


def test_contexts_that_cannot_be(made):
    root, _, _ = made
    with pytest.raises(HipshieldError, match="needs --model FILE"):
        TrainConfig(context="encoder")
    with pytest.raises(HipshieldError, match="this run has neither"):
        TrainConfig(model="x.safetensors")
    config = TrainConfig(
        task="car-circle", context="encoder", model=str(root / "model.safetensors")
    )
    with pytest.raises(HipshieldError, match=r"model of robot 'point', and car-circle is about"):
        train(config, root / "wrong")


def test_comparing_writes_tables_and_figures(made, tmp_path):
    root, wanted, _ = made
    predictors = (Fitting(), Fitting("mlp", oracle=True), Fitting("mlp"))
    small = replace(wanted, explore=0.0, episodes=6)
    comparison = Comparison(TASK, predictors, small, QUICK, tested=4)
    said = []
    data = gather(comparison, tmp_path / "data", root / "runs", said.append)
    assert len(said) == 3
    assert all("collected" in line for line in said)
    assert {k: len(v.z) for k, v in data.tests.items()} == {"train": 4, "ood": 4}
    out = tmp_path / "all" / TASK / "predictors"
    rows = compare(comparison, data, out, said.append)
    assert len(rows) == 6
    table = read_table(out / "errors.csv")
    assert [r["predictor"] for r in table[::2]] == ["function encoder", "oracle mlp", "mlp"]
    assert table[0]["mean_20"] == pytest.approx(rows[0]["mean_20"], rel=1e-4)
    assert {r["rival"] for r in ratios(rows)} == {"oracle mlp", "mlp"}
    readouts = read_table(out / "readout.csv")
    acts = {r["parameter"]: r["acts"] for r in readouts}
    # The Point has no vertical joint: nothing presses it on the floor.
    assert acts == {"gravity": False, "damping": True, "mass": True, "inertia": True,
                    "friction": False}  # fmt: skip
    for path in draw_comparison(out):
        assert path.stat().st_size > 5000
    page = write_summary(tmp_path / "all").read_text()
    share = rows[0]["mean_20"] / rows[2]["mean_20"]  # of the oracle MLP's
    assert f"{share:.2f}" in page
    assert page.count(f"| {TASK} |") == 2 + 4 + 1
    gather(comparison, tmp_path / "data", root / "runs", said.append)  # nothing is missing now
    assert sum("collected" in line for line in said) == 3


def test_what_acts_is_measured():
    effects = acting("car-goal", robots=2, steps=40)
    assert set(effects) == {"gravity", "damping", "mass", "inertia", "friction"}
    assert effects["mass"] > 0.01


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["collect", "--policy", "nobody"], "is not a run"),
        (["collect", "--episodes", "0"], "at least 1 episode"),
        (["collect", "--task", "point-gaol"], "Did you mean 'point-goal'"),
        (["fit"], "no data set at 'data/hipshield/point-goal/ppo-v0'"),
        (["fit", "--model", "transformr"], "Did you mean 'transformer'"),
        (["fit", "--iterations", "0"], "iterations"),
        (["fit", "--out", "model.pkl"], "is a .safetensors file"),
        (["compare-models", "--study", "size"], "Did you mean 'sizes'"),
        (["train", "--context", "encoder"], "needs --model FILE"),
    ],
)
def test_bad_input_ends_with_one_line(args, says, capsys):
    assert main(args) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_data_of_another_task_are_refused(made):
    root, wanted, _ = made
    data = root / "data" / wanted.name
    with pytest.raises(HipshieldError, match="of task 'point-circle', not of 'point-goal'"):
        fit_to_file(Fitting(), data, "point-goal", root / "x.safetensors", QUICK)
    with pytest.raises(HipshieldError, match="Only a function encoder forgets"):
        fit_to_file(Fitting("mlp", keep=0.9), data, TASK, root / "x.safetensors", QUICK)
    assert not (root / "x.safetensors").exists()
    assert read_dataset(data)[0].episodes == 10
