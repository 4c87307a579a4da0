"""Data sets: what goes in comes out, others can load it, and what is wrong is named."""

import json
from dataclasses import replace

import h5py
import minari
import numpy as np
import pytest

from hipshield.errors import HipshieldError
from hipshield.models.data import Facts, dataset_id, read_dataset, read_facts, record, write_dataset
from hipshield.models.episodes import Episode
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.world import World

NAME = dataset_id("point-goal", "random")
FACTS = Facts("point-goal", "robot = 'point'", "train", "random", 0)


def episodes(count, steps=6, seed=0):
    rng = np.random.default_rng(seed)
    make = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    return [
        Episode(make(steps + 1, 4), make(steps + 1, 2), make(steps, 2), make(steps),
                (rng.random(steps) < 0.3).astype(np.float32), make(5))
        for _ in range(count)
    ]  # fmt: skip


@pytest.fixture
def written(tmp_path):
    batches = [episodes(2), episodes(3, seed=1)]
    facts = write_dataset(tmp_path, NAME, FACTS, batches)
    return tmp_path / NAME, facts, [e for b in batches for e in b]


def test_what_goes_in_comes_out(written):
    place, facts, wrote = written
    assert (facts.episodes, facts.steps) == (5, 6)
    assert read_facts(place) == facts
    again, found = read_dataset(place, "point-goal")
    found = list(found)
    assert again == facts
    assert len(found) == 5
    for mine, theirs in zip(wrote, found, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_others_can_load_it(written, monkeypatch):
    place, _, wrote = written
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(place.parents[2]))
    theirs = minari.load_dataset(NAME)
    assert (theirs.total_episodes, theirs.total_steps) == (5, 30)
    third = theirs[2]
    np.testing.assert_array_equal(third.observations, wrote[2].obs)
    np.testing.assert_array_equal(third.rewards, wrote[2].reward)
    np.testing.assert_array_equal(third.infos["cost"][1:], wrote[2].cost)
    np.testing.assert_array_equal(third.infos["hidden_parameters"][-1], wrote[2].phi)
    assert third.truncations.tolist() == [False] * 5 + [True]
    about = theirs.storage.metadata["hipshield"]
    assert about["task"] == "point-goal"
    assert set(about["versions"]) == {"hipshield", "mujoco", "numpy", "minari"}


def test_the_hash_is_of_the_contents(tmp_path):
    hashes = [
        write_dataset(tmp_path / str(i), NAME, FACTS, [episodes(2, seed=seed)]).hash
        for i, seed in enumerate((0, 0, 1))
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_place_that_is_taken_and_nothing_to_write(written, tmp_path):
    place, *_ = written
    with pytest.raises(HipshieldError, match=r"is a data set at .* already"):
        write_dataset(place.parents[2], NAME, FACTS, [episodes(1)])
    with pytest.raises(HipshieldError, match="at least one episode"):
        write_dataset(tmp_path / "other", NAME, FACTS, [])
    assert not list((tmp_path / "other").rglob("*.hdf5"))


def test_a_write_that_breaks_leaves_nothing_that_looks_complete(tmp_path):
    def breaks():
        yield episodes(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_dataset(tmp_path, NAME, FACTS, breaks())
    with pytest.raises(HipshieldError, match="hipshield collect"):
        read_facts(tmp_path / NAME)
    assert write_dataset(tmp_path, NAME, FACTS, [episodes(1)]).episodes == 1


def read_all(place, task=None):
    return list(read_dataset(place, task)[1])


def test_what_is_wrong_is_named(written, tmp_path):
    place, *_ = written
    with pytest.raises(HipshieldError, match=r"no data set at .*nowhere"):
        read_facts(tmp_path / "nowhere")
    with pytest.raises(HipshieldError, match="of task 'point-goal', not of 'car-goal'"):
        read_dataset(place, "car-goal")
    metadata = place / "data" / "metadata.json"
    good = metadata.read_text()
    for text, says in (
        ("nonsense", "does not describe"),
        ("{}", "does not describe"),
        (good.replace("hipshield-data-1", "hipshield-data-9"), "has format hipshield-data-9"),
        (good.replace('"episodes": 5', '"episodes": 0'), "holds no episode"),
        (good.replace('"episodes": 5', '"episodes": 6'), "damaged or incomplete"),
        (good.replace('"episodes": 5', '"episodes": 4'), "was altered"),
    ):
        metadata.write_text(text)
        with pytest.raises(HipshieldError, match=says):
            read_all(place)
    assert json.loads(good)["hipshield"]["hash"]


def test_a_truncated_file(written):
    place, *_ = written
    path = place / "data" / "main_data.hdf5"
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(HipshieldError, match=r"main_data.hdf5' is damaged or incomplete"):
        read_all(place)


@pytest.mark.parametrize("column", ["observations", "actions", "infos/feature"])
def test_rows_that_are_not_finite_are_named(written, column):
    place, *_ = written
    with h5py.File(place / "data" / "main_data.hdf5", "r+") as file:
        file[f"episode_3/{column}"][4, 0] = np.nan
    with pytest.raises(HipshieldError, match=r"main_data.hdf5', episode 3, row 4: \w+ is not"):
        read_all(place)


def test_altered_numbers_are_noticed(written):
    place, *_ = written
    with h5py.File(place / "data" / "main_data.hdf5", "r+") as file:
        file["episode_3/rewards"][4] += 1
    with pytest.raises(HipshieldError, match="was altered after it was collected"):
        read_all(place)


def test_recording_is_what_the_world_sent():
    task = replace(find_task("point-goal"), episode_steps=5)
    world, twin = World(task, 3, threads=1), World(task, 3, threads=1)
    plan = np.random.default_rng(0).uniform(-2, 2, (5, 3, 2)).astype(np.float32)
    world.reset(seed=4)
    got = record(world, lambda world: plan[world.elapsed[0]])
    now = twin.reset(seed=4)
    for t in range(5):
        for i in range(3):
            np.testing.assert_array_equal(got[i].obs[t], now.obs[i].astype(np.float32))
        now = twin.step(np.clip(plan[t], -1, 1))
        for i in range(3):
            np.testing.assert_array_equal(got[i].action[t], np.clip(plan[t, i], -1, 1))
            np.testing.assert_array_equal(got[i].feature[t + 1], now.feature[i].astype(np.float32))
            assert got[i].reward[t] == np.float32(now.reward[i])
    np.testing.assert_allclose(got[1].phi, twin.hidden[1], rtol=1e-6)
