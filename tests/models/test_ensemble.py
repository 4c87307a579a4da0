"""The probabilistic ensemble: its likelihood and spread by hand, and what it must learn."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slides import MOTION, SETTINGS, blind_guess, rows_of, slides

from hipshield.errors import HipshieldError
from hipshield.models import fit as fitting
from hipshield.models.ensemble import Ensemble
from hipshield.models.fit import fit, measure_scale

NOISE = 0.02  # on the measured changes, as large as a fifth of what thrust and drag do
ORACLE = Ensemble(MOTION, phi=2, hidden=(16,))
HASTY = replace(SETTINGS, iterations=1000)


def noisy(rows, seed=0):
    noise = NOISE * np.random.default_rng(seed).standard_normal(rows.y.shape)
    return rows._replace(y=rows.y + noise.astype(np.float32))


@jax.jit
def loss_of(params, rows):
    return ORACLE.loss(params, rows, jax.random.key(0))


@jax.jit
def slope_of(theta, params, rows):
    return jax.grad(lambda theta: loss_of(params._replace(theta=theta), rows))(theta)


predict = jax.jit(ORACLE.predict)
spread_of = jax.jit(ORACLE.spread)


@pytest.fixture(scope="module")
def fitted():
    rows = noisy(rows_of(*slides(200, 60)))
    fitting.trace_counts.clear()
    params = fit(ORACLE, rows, HASTY)
    assert fitting.trace_counts["ensemble"] == 1
    return params, rows


def contexts(params, phi):
    return jax.vmap(lambda phi: ORACLE.adapt(params, ORACLE.start(params, phi)))(phi)[:, None]


# The likelihood


@pytest.fixture(scope="module")
def case():
    rows = jax.tree.map(jnp.asarray, rows_of(*slides(3, 11)))
    return jax.jit(ORACLE.init)(jax.random.key(0), measure_scale(rows)), rows


def softplus64(v):
    return np.log1p(np.exp(v))


def test_the_loss_is_the_likelihood_of_each_members_share_in_double_precision(case):
    params, rows = case
    scale = jax.tree.map(lambda v: np.asarray(v, float), params.scale)
    total = []
    for m, theta in enumerate(np.asarray(params.theta, float)):
        weight, bias = theta[: 4 * 16].reshape(4, 16), theta[4 * 16 : 5 * 16]
        out, last = theta[5 * 16 : 5 * 16 + 64].reshape(16, 4), theta[5 * 16 + 64 :]
        for e in range(3):
            for t in (2 * m, 2 * m + 1):  # eleven steps, five members: two each, one is left
                seen = (np.asarray(rows.x[e, t]) - scale.x_mean) / scale.x_scale
                told = (np.asarray(rows.phi[e]) - scale.phi_mean) / scale.phi_scale
                inputs = np.concatenate([seen, np.asarray(rows.action[e, t]), told])
                mean, free = np.split(np.tanh(inputs @ weight + bias) @ out + last, 2)
                log_variance = -10 + softplus64(12 - softplus64(2 - free))
                error = mean - (np.asarray(rows.y[e, t]) - scale.y_mean) / scale.y_scale
                total.append((error**2 / np.exp(log_variance) + log_variance) / 2)
    loss = loss_of(params, rows)
    np.testing.assert_allclose(loss, np.mean(total), rtol=1e-5)


def test_terms_pull_at_their_means_by_error_and_the_root_of_their_precision(case):
    """β = ½: the gradient by a mean is error ÷ variance^½, where the likelihood's has variance."""
    params, rows = case
    gradients = []
    for bias in (0.0, -4.0):  # of the log variances: far from their bounds, it is their shift
        theta = params.theta.at[:, -4 * 17 :].set(0.0).at[:, -2:].set(bias)  # no weights
        gradients.append(np.asarray(slope_of(theta, params, rows))[:, -4:-2])
    free = np.array([0.0, -4.0])
    log_variance = -10 + softplus64(12 - softplus64(2 - free))
    ratio = np.exp(0.5 * (log_variance[0] - log_variance[1]))
    np.testing.assert_allclose(gradients[1] / gradients[0], ratio, rtol=1e-4)


def test_members_start_differently_and_learn_from_different_transitions(case):
    params, rows = case
    assert len(np.unique(np.asarray(params.theta)[:, 0])) == 5

    other = rows._replace(y=rows.y.at[:, 5].add(1.0))
    moved = slope_of(params.theta, params, other) - slope_of(params.theta, params, rows)
    assert (np.abs(moved).max(1) > 0).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("bias", [-1e6, -30.0, 0.0, 30.0, 1e6])
def test_variances_are_bounded_whatever_a_network_says(case, bias):
    params, rows = case
    said = params._replace(theta=params.theta.at[:, -2:].set(bias))
    noise, _ = spread_of(said, jnp.zeros(2), rows.x[0], rows.action[0])
    standard = np.asarray(noise) / np.asarray(params.scale.y_scale)
    assert (np.exp(-5) * 0.999 <= standard).all()
    assert (standard <= np.exp(1) * 1.001).all()
    assert np.isfinite(loss_of(said, rows))


# Means and spreads


def test_it_predicts_the_mean_and_spread_of_its_members_as_a_mixture(case):
    params, rows = case
    b, x, a = jnp.asarray([0.3, -0.4]), rows.x[0], rows.action[0]
    alone = [params._replace(theta=params.theta[m : m + 1]) for m in range(5)]
    means = np.array([predict(each, b, x, a) for each in alone], float)
    noises = np.array([spread_of(each, b, x, a)[0] for each in alone], float)
    np.testing.assert_allclose(predict(params, b, x, a), means.mean(0), rtol=1e-5)
    noise, disagreement = spread_of(params, b, x, a)
    # A mixture's second moment is the mean of its parts'.
    wanted = (means**2 + noises**2).mean(0) - means.mean(0) ** 2
    np.testing.assert_allclose(noise**2 + disagreement**2, wanted, rtol=1e-3)
    single = spread_of(alone[0], b, x, a)[1]
    np.testing.assert_array_equal(single, 0)  # one member agrees with itself


def test_an_oracle_beats_the_best_blind_guess_and_knows_the_noise(fitted):
    params, _ = fitted
    new = rows_of(*slides(60, 60, seed=1))
    b = contexts(params, new.phi)
    error = np.sqrt(np.mean((predict(params, b, new.x, new.action) - new.y) ** 2))
    assert error < 0.4 * np.sqrt(np.mean((blind_guess(new) - new.y) ** 2))
    noise, _ = spread_of(params, b, new.x, new.action)
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(noise))), NOISE, rtol=0.15)


def test_members_disagree_away_from_the_data(fitted):
    params, _ = fitted
    b, a = jnp.zeros(2), jnp.zeros((1, 1))
    means = []
    for far in (0.0, 4.0, 8.0):  # spreads of v from its mean, in the training data
        x = (params.scale.x_mean + far * params.scale.x_scale)[None]
        means.append(float(spread_of(params, b, x, a)[1].mean()))
    assert means[1] > 2 * means[0]
    assert means[2] > means[1]


# What is not finite


def test_hidden_parameters_that_are_not_finite_are_not_known(case):
    params, _ = case
    mean = np.asarray(params.scale.phi_mean)
    for bad in (np.nan, np.inf, -np.inf):
        b = ORACLE.adapt(params, ORACLE.start(params, jnp.asarray([bad, mean[1]])))
        np.testing.assert_allclose(b, [0, 0], atol=1e-6)


def test_an_oracle_that_is_told_too_little_says_so(case):
    params, _ = case
    with pytest.raises(HipshieldError, match="told 2 hidden parameters, and got 1"):
        ORACLE.start(params, jnp.zeros(1))


def test_a_minibatch_must_have_a_step_for_each_member(case):
    params, rows = case
    few = jax.tree.map(lambda v: v[:, :4], rows)
    with pytest.raises(HipshieldError, match="An ensemble of 5"):
        ORACLE.loss(params, few, jax.random.key(0))


@pytest.mark.parametrize(
    "wrong", [dict(phi=-1), dict(members=0), dict(hidden=()), dict(hidden=(0,))]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(HipshieldError):
        Ensemble(MOTION, **wrong)
