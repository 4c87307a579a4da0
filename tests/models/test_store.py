"""Model files: what is read is what was written, for every kind; what is wrong is refused."""

import jax
import numpy as np
import pytest

from hipshield.errors import HipshieldError
from hipshield.files import read_arrays, write_arrays
from hipshield.models.catalogue import KINDS, make_predictor
from hipshield.models.fit import measure_scale
from hipshield.models.motion import plain
from hipshield.models.predictor import Rows
from hipshield.models.robots import motion_of_robot
from hipshield.models.store import Model, fingerprint, load_model, save_model

MOTION = motion_of_robot("point")


def rows(seed=0):
    rng = np.random.default_rng(seed)
    make = lambda n: rng.normal(size=(3, 4, n)).astype(np.float32)  # noqa: E731
    phi = rng.normal(size=(3, 5)).astype(np.float32)
    return Rows(make(MOTION.inputs), make(MOTION.actions), make(MOTION.outputs), phi)


def model(kind, seed=0, **more):
    predictor = make_predictor(kind, MOTION, **more)
    params = predictor.init(jax.random.key(seed), measure_scale(rows()))
    return Model(predictor, params, {"task": "point-goal", "prior": {"1": 0.5, "20": 2.0}})


CASES = [(kind, {}) for kind in KINDS] + [("mlp", {"phi": 5}), ("ensemble", {"phi": 5})]


@pytest.mark.parametrize(("kind", "more"), CASES)
def test_what_is_read_is_what_was_written(kind, more, tmp_path):
    wrote = model(kind, **more)
    path = tmp_path / "deep" / "model.safetensors"
    save_model(path, wrote)
    read = load_model(path)
    assert read.predictor == wrote.predictor
    assert read.prior == {1: 0.5, 20: 2.0}
    assert jax.tree.structure(read.params) == jax.tree.structure(wrote.params)
    for a, b in zip(jax.tree.leaves(read.params), jax.tree.leaves(wrote.params), strict=True):
        np.testing.assert_array_equal(a, b)
    assert fingerprint(*read[:2]) == fingerprint(*wrote[:2])
    assert fingerprint(*read[:2]) != fingerprint(*model(kind, seed=1, **more)[:2])
    mine = rows(seed=2)
    for part in (wrote, read):
        belief = part.predictor.start(part.params, mine.phi[0])
        b = part.predictor.adapt(part.params, belief)
        y = part.predictor.predict(part.params, b, mine.x[0, 0], mine.action[0, 0])
        assert np.isfinite(y).all()


def test_a_robot_of_ones_own_brings_its_motion(tmp_path):
    mine = plain("slide", actions=1, now=1, features=1)
    predictor = make_predictor("mlp", mine)
    one = np.ones((2, 3, 1), np.float32)
    scale = measure_scale(Rows(one, one, np.ones((2, 3, 2), np.float32), one[:, 0]))
    path = tmp_path / "slide.safetensors"
    save_model(path, Model(predictor, predictor.init(jax.random.key(0), scale), {}))
    assert load_model(path, mine).predictor == predictor
    with pytest.raises(HipshieldError, match="'slide'"):
        load_model(path)
    with pytest.raises(HipshieldError, match="is a model of robot 'slide'"):
        load_model(path, MOTION)


def test_what_is_wrong_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(HipshieldError, match="no model at"):
        load_model(path)
    save_model(path, model("mlp"))
    good = path.read_bytes()
    for bad in (b"", b"hello", good[:-8]):
        path.write_bytes(bad)
        with pytest.raises(HipshieldError, match="not a readable model"):
            load_model(path)
    path.write_bytes(good)
    arrays, facts = read_arrays(path)
    for change, about, says in (
        ({}, {"format": "hipshield-model-9"}, "not a model that this version"),
        ({}, {"kind": "oracle-of-delphi"}, "not a model that this version"),
        ({"theta": arrays["theta"][:-1]}, {}, "does not hold the parameters"),
        ({"theta": arrays["theta"] * np.nan}, {}, "does not hold the parameters"),
    ):
        write_arrays(path, arrays | change, facts | about)
        with pytest.raises(HipshieldError, match=says):
            load_model(path)
