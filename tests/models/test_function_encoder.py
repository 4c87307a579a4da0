"""The function encoder and the MLP: what they must get exactly right, and what they must learn."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slides import MOTION, SETTINGS, rows_of, slides

from hipshield.errors import HipshieldError
from hipshield.models import identify
from hipshield.models.fit import fit, measure_scale
from hipshield.models.function_encoder import FunctionEncoder
from hipshield.models.identify import begin, beliefs, observe
from hipshield.models.perceptron import MlpPredictor
from hipshield.models.predictor import model_at


@pytest.fixture(scope="module")
def fitted():
    predictor = FunctionEncoder(MOTION, bases=2, hidden=(32, 32), support=20)
    rows = rows_of(*slides(200, 60))
    return predictor, fit(predictor, rows, SETTINGS), rows


def test_whitening_changes_no_prediction_and_standardises_b(fitted):
    predictor, params, rows = fitted
    held = -20  # fitting kept the last tenth for validation
    b = jax.vmap(partial(whole_episode, predictor, params))(
        rows.x[:held], rows.action[:held], rows.y[:held]
    )
    # Not exactly: the online prior pulls a little where the batch solve of fitting does not.
    np.testing.assert_allclose(b.mean(0), 0, atol=0.1)
    np.testing.assert_allclose(np.cov(np.asarray(b).T), np.eye(2), atol=0.25)
    turned = params._replace(mix=jnp.eye(2), centre=jnp.zeros(2))
    coefficients = params.centre + params.mix.T @ jnp.asarray([0.4, -1.3])
    x, a = rows.x[0], rows.action[0]
    here = predictor.predict(params, jnp.asarray([0.4, -1.3]), x, a)
    there = predictor.predict(turned, coefficients, x, a)
    np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("average", [True, False])
def test_the_network_at_one_b_predicts_the_same(average):
    rng = np.random.default_rng(4)
    rows = rows_of(*slides(20, 30))
    predictor = FunctionEncoder(MOTION, bases=2, hidden=(8, 8), average=average)
    params = predictor.init(jax.random.key(0), measure_scale(rows))
    params = params._replace(centre=jnp.array([0.3, -2.0]), mix=jnp.array([[1.0, 2.0], [-0.5, 1]]))
    b = jnp.asarray(rng.standard_normal(2), jnp.float32)
    x, a = rows.x[0], rows.action[0]
    wanted = predictor.predict(params, b, x, a)
    np.testing.assert_allclose(model_at(predictor, params, b)(x, a), wanted, rtol=1e-5, atol=1e-6)
    blind = MlpPredictor(MOTION, hidden=(8,))  # has no method `at`
    params = blind.init(jax.random.key(0), measure_scale(rows))
    same = model_at(blind, params, jnp.zeros(0))(x, a)
    np.testing.assert_array_equal(same, blind.predict(params, jnp.zeros(0), x, a))


def whole_episode(predictor, params, x, a, y):
    belief = predictor.start(params, jnp.zeros(2))
    step = lambda belief, row: (predictor.learn(params, belief, *row), None)  # noqa: E731
    belief, _ = jax.lax.scan(step, belief, (x, a, y))
    return predictor.adapt(params, belief)


def test_it_identifies_new_robots_and_b_carries_the_hidden_parameters(fitted):
    predictor, params, rows = fitted
    for low, high, worst in ((0.3, 1.7, 0.05), (1.7, 2.5, 0.2)):
        new = rows_of(*slides(40, 60, low, high, seed=1))
        b = jax.vmap(partial(whole_episode, predictor, params))(new.x, new.action, new.y)
        guess = jax.vmap(partial(predictor.predict, params))(b, new.x, new.action)
        spread = np.std(np.asarray(rows.y))
        assert np.sqrt(np.mean((guess - new.y) ** 2)) < worst * spread
    inputs = np.column_stack([b, np.ones(len(b))])
    readout, *_ = np.linalg.lstsq(inputs, new.phi, rcond=None)
    left = ((inputs @ readout - new.phi) ** 2).sum(0) / ((new.phi - new.phi.mean(0)) ** 2).sum(0)
    assert (1 - left > 0.98).all()


def test_it_beats_a_model_that_is_told_nothing_from_the_first_transitions_on(fitted):
    predictor, params, rows = fitted
    blind = MlpPredictor(MOTION, hidden=(16,))
    blind_params = fit(blind, rows, SETTINGS)
    v, action, phi = slides(60, 40, seed=2)
    errors = {}
    for name, model, theta in (("encoder", predictor, params), ("blind", blind, blind_params)):
        track = begin(model, theta, v[:, 0], v[:, 0], phi)
        missed = []
        for t in range(40):
            b = beliefs(model, theta, track)
            y = jax.vmap(partial(model.predict, theta))(b, MOTION.x(track.z), action[:, t])
            expected = MOTION.e(MOTION.move(track.z, action[:, t], y))
            missed.append(np.abs(np.asarray(expected) - v[:, t + 1]).mean())
            track = observe(model, theta, track, action[:, t], v[:, t + 1], v[:, t + 1])
        errors[name] = np.array(missed)
    assert errors["encoder"][0] < 1.3 * errors["blind"][0]  # the prior is no worse than the mean
    assert errors["encoder"][5:].mean() < 0.3 * errors["blind"][5:].mean()


def test_following_a_batch_is_following_each_and_compiles_once(fitted):
    predictor, params, _ = fitted
    v, action, phi = slides(4, 6, seed=3)
    identify.trace_counts.clear()

    def follow(i):
        track = begin(predictor, params, v[i, 0], v[i, 0], phi[i])
        for t in range(6):
            track = observe(predictor, params, track, action[i, t], v[i, t + 1], v[i, t + 1])
        return beliefs(predictor, params, track)

    together = follow(slice(None))
    assert set(identify.trace_counts.values()) == {1}
    for i in range(4):
        np.testing.assert_allclose(follow(slice(i, i + 1))[0], together[i], rtol=1e-5, atol=1e-6)


def test_an_episode_starts_with_the_prior(fitted):
    predictor, params, _ = fitted
    v, _, phi = slides(3, 1)
    track = begin(predictor, params, v[:, 0], v[:, 0], phi)
    np.testing.assert_array_equal(beliefs(predictor, params, track), np.zeros((3, 2)))


def test_sensors_that_fail_do_not_spoil_what_is_known(fitted):
    predictor, params, _ = fitted
    v, action, phi = slides(2, 10)
    track = begin(predictor, params, v[:, 0], v[:, 0], phi)
    for t in range(9):
        seen = np.full_like(v[:, t + 1], np.nan) if t == 5 else v[:, t + 1]
        track = observe(predictor, params, track, action[:, t], seen, seen)
    assert np.isfinite(beliefs(predictor, params, track)).all()
    assert np.isfinite(track.z).all()  # one good observation later, the state is good again


def test_without_an_average_function_the_prior_is_the_training_mean(fitted):
    _, _, rows = fitted
    predictor = FunctionEncoder(MOTION, bases=2, hidden=(16,), support=20, average=False)
    params = fit(predictor, rows, replace(SETTINGS, iterations=300))
    raw, average = predictor.raw(params, rows.x[0], rows.action[0])
    assert raw.shape == (60, 2, 2)
    np.testing.assert_array_equal(average, 0)
    guess = predictor.predict(params, jnp.zeros(2), rows.x[0], rows.action[0])
    wanted = jnp.einsum("k,sko->so", params.centre, raw)
    wanted = params.scale.y_mean + params.scale.y_scale * wanted
    np.testing.assert_allclose(guess, wanted, rtol=1e-4, atol=1e-6)


def test_an_oracle_is_told_and_knows_from_the_start():
    rows = rows_of(*slides(200, 60))
    oracle = MlpPredictor(MOTION, phi=2, hidden=(32,))
    params = fit(oracle, rows, SETTINGS)
    v, action, phi = slides(40, 1, seed=5)
    b = beliefs(oracle, params, begin(oracle, params, v[:, 0], v[:, 0], phi))
    y = jax.vmap(partial(oracle.predict, params))(b, v[:, 0], action[:, 0])
    assert np.abs(v[:, 0] + np.asarray(y)[:, :1] - v[:, 1]).mean() < 0.01
    lied = beliefs(oracle, params, begin(oracle, params, v[:, 0], v[:, 0], phi[::-1].copy()))
    wrong = jax.vmap(partial(oracle.predict, params))(lied, v[:, 0], action[:, 0])
    assert np.abs(wrong - y).mean() > 0.01


def test_a_minibatch_must_hold_more_than_the_support(fitted):
    predictor, params, rows = fitted
    few = jax.tree.map(lambda v: v[:, :20], rows)
    with pytest.raises(HipshieldError, match="more than 20 steps"):
        predictor.loss(params, few, jax.random.key(0))


def test_what_never_changes_is_zero_after_scaling():
    rows = rows_of(*slides(10, 5))
    scale = measure_scale(rows._replace(x=np.full_like(rows.x, 7.0)))
    np.testing.assert_array_equal((7.0 - scale.x_mean) / scale.x_scale, 0)


@pytest.mark.parametrize(
    "wrong", [dict(bases=0), dict(hidden=()), dict(keep=0.0), dict(keep=1.1), dict(norm=-1.0)]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(HipshieldError):
        FunctionEncoder(MOTION, **wrong)
