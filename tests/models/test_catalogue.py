"""The catalogue: names, equal sizes, and the contract that every kind keeps."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slides import MOTION, rows_of, slides

from hipshield.errors import HipshieldError
from hipshield.models import identify
from hipshield.models.catalogue import INFERRING, KINDS, PAPER_BUDGET, make_predictor
from hipshield.models.fit import measure_scale
from hipshield.models.function_encoder import FunctionEncoder
from hipshield.models.identify import begin, beliefs, observe
from hipshield.models.robots import motion_of_robot

ROBOTS = ("point", "car", "half-cheetah")
# Every kind, and the oracles among them.
VARIANTS = [(kind, 0) for kind in KINDS] + [(k, 2) for k in KINDS if k not in INFERRING]


# Sizes


@given(
    kind=st.sampled_from(KINDS),
    robot=st.sampled_from(ROBOTS),
    budget=st.integers(2000, 400_000),
    told=st.integers(0, 14),
)
def test_predictors_are_as_large_as_their_budget(kind, robot, budget, told):
    phi = 0 if kind in INFERRING else told
    predictor = make_predictor(kind, motion_of_robot(robot), phi=phi, budget=budget)
    assert abs(predictor.count - budget) < 0.035 * budget


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("kind", KINDS)
def test_by_default_all_are_as_large_as_the_function_encoder(kind, robot):
    motion = motion_of_robot(robot)
    wanted = FunctionEncoder(motion).count
    assert abs(make_predictor(kind, motion).count - wanted) < 0.02 * wanted
    paper = make_predictor(kind, motion, budget=PAPER_BUDGET)
    assert 270_000 <= paper.count <= 280_000


def test_the_default_function_encoder_is_the_default_function_encoder():
    motion = motion_of_robot("point")
    assert make_predictor("function-encoder", motion) == FunctionEncoder(motion)
    five = FunctionEncoder(motion, bases=5)
    assert make_predictor("function-encoder", motion, context=5) == five


@pytest.mark.parametrize(("kind", "phi"), VARIANTS)
def test_count_is_what_fitting_learns(kind, phi):
    predictor, params = small(kind, phi)
    assert predictor.count == sum(leaf.size for leaf in jax.tree.leaves(params.theta))
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(params))


# Names and nonsense


def test_a_misspelt_kind_is_met_with_the_nearest():
    with pytest.raises(HipshieldError, match="Did you mean 'transformer'"):
        make_predictor("transfomer", MOTION)


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        ("function-encoder", dict(phi=2), "infers what an oracle is told"),
        ("transformer", dict(phi=2), "infers what an oracle is told"),
        ("mlp", dict(context=3), "infers no context"),
        ("ensemble", dict(budget=20), "has about 20 parameters: the nearest has 65"),
        ("transformer", dict(budget=20), "has about 20 parameters"),
        ("transformer", dict(context=0), "at least one value in b"),
    ],
)
def test_what_makes_no_sense_is_refused(kind, wrong, message):
    with pytest.raises(HipshieldError, match=message):
        make_predictor(kind, MOTION, **wrong)


# The contract. It holds whatever was learned, so nothing is fitted here.


@lru_cache
def small(kind, phi):
    rows = rows_of(*slides(4, 30))
    predictor = make_predictor(kind, MOTION, phi=phi, budget=1000)
    params = jax.jit(predictor.init)(jax.random.key(0), measure_scale(rows))
    return predictor, jax.jit(predictor.finish)(params, rows)


def follow(predictor, params, v, action, phi):
    track = begin(predictor, params, v[:, 0], v[:, 0], phi)
    for t in range(action.shape[1]):
        track = observe(predictor, params, track, action[:, t], v[:, t + 1], v[:, t + 1])
    return track


@pytest.mark.parametrize(("kind", "phi"), VARIANTS)
def test_a_batch_is_each_robot_and_compiles_once(kind, phi):
    predictor, params = small(kind, phi)
    case = slides(3, 6, seed=3)
    identify.trace_counts.clear()
    together = beliefs(predictor, params, follow(predictor, params, *case))
    assert set(identify.trace_counts.values()) == {1}
    assert together.shape == (3, predictor.context)
    alone = follow(predictor, params, *(part[1:2] for part in case))
    np.testing.assert_allclose(
        beliefs(predictor, params, alone)[0], together[1], rtol=1e-4, atol=1e-5
    )
    if predictor.context:
        assert np.abs(np.asarray(together[0] - together[1])).max() > 1e-4


@pytest.mark.parametrize(("kind", "phi"), VARIANTS)
def test_what_a_robot_sends_never_spoils_what_is_believed(kind, phi):
    predictor, params = small(kind, phi)
    v, action, told = slides(3, 6, seed=3)
    v[1, 3], v[2, 4] = np.nan, np.inf
    b = np.asarray(beliefs(predictor, params, follow(predictor, params, v, action, told)))
    assert np.isfinite(b).all()
    predict = jax.jit(jax.vmap(predictor.predict, (None, 0, 0, 0)))
    y = predict(params, b, np.ones((3, MOTION.inputs), np.float32), action[:, 0])
    assert y.shape == (3, MOTION.outputs)
    assert np.isfinite(y).all()


@pytest.mark.parametrize(("kind", "phi"), VARIANTS)
def test_predictions_may_have_leading_axes(kind, phi):
    predictor, params = small(kind, phi)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, MOTION.inputs)).astype(np.float32)
    a = rng.standard_normal((2, 3, MOTION.actions)).astype(np.float32)
    b = jnp.linspace(-1, 1, predictor.context)
    predict = jax.jit(predictor.predict)
    y = predict(params, b, x, a)
    np.testing.assert_allclose(y[1, 2], predict(params, b, x[1, 2], a[1, 2]), atol=1e-6)
