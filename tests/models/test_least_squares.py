"""Identification's arithmetic: known answers, float64 references, and inputs that are no good."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipshield.models.least_squares import Moments, include, nothing, solve, solve_positive

K, OUTPUTS = 3, 2


def transitions(count, seed=0, noise=0.0):
    """Bases and residuals of a robot whose coefficients are (1, −2, 0.5)."""
    rng = np.random.default_rng(seed)
    bases = rng.standard_normal((count, K, OUTPUTS)).astype(np.float32)
    b = np.array([1.0, -2.0, 0.5])
    residual = np.einsum("k,nko->no", b, bases) + noise * rng.standard_normal((count, OUTPUTS))
    return bases, residual.astype(np.float32), b


def accumulate(bases, residual, weight, keep=1.0):
    def go(known, row):
        known = include(known, *row, weight, keep)
        return known, solve(known)

    return jax.lax.scan(go, nothing(K), (jnp.asarray(bases), jnp.asarray(residual)))


def reference(bases, residual, weight, keep=1.0):
    """One ridge regression in float64, the past discounted."""
    bases, residual = bases.astype(float), residual.astype(float)
    past = keep ** np.arange(len(bases))[::-1]
    gram = np.einsum("n,nko,o,nlo->kl", past, bases, weight, bases)
    moment = np.einsum("n,nko,o,no->k", past, bases, weight, residual)
    return np.linalg.solve(np.eye(K) + gram, moment)


@pytest.mark.parametrize("keep", [1.0, 0.95])
@pytest.mark.parametrize("count", [1, 2, 100, 1000])
def test_step_by_step_equals_one_solve_in_double_precision(count, keep):
    bases, residual, _ = transitions(count, noise=0.1)
    weight = np.array([30.0, 0.7])
    known, _ = accumulate(bases, residual, weight, keep)
    wanted = reference(bases, residual, weight, keep)
    np.testing.assert_allclose(solve(known), wanted, rtol=1e-4, atol=1e-5)


def test_a_known_combination_is_recovered():
    bases, residual, b = transitions(20)
    known, path = accumulate(bases, residual, np.full(OUTPUTS, 1e4))
    np.testing.assert_allclose(solve(known), b, atol=1e-4)
    assert np.abs(path[0]).max() < 3  # the first estimate is bounded, not wild


def test_nothing_seen_is_the_prior():
    np.testing.assert_array_equal(solve(nothing(K)), np.zeros(K))


def test_one_transition_moves_b_only_where_it_says_something():
    basis = np.array([[1.0], [0.0], [0.0]])
    known = include(nothing(3), basis, np.array([2.0]), np.array([1e6]))
    np.testing.assert_allclose(solve(known), [2.0, 0.0, 0.0], atol=1e-4)


def test_constant_inputs_stay_bounded_for_ever():
    """A robot that stands still repeats one row: the direction it shows is learned, no more."""
    basis = jnp.asarray(np.array([[1.0, 0.2], [1.0, 0.2], [0.0, 0.0]], np.float32))
    target = jnp.asarray([1.0, 0.2], jnp.float32)
    known, _ = jax.lax.scan(
        lambda m, _: (include(m, basis, target, jnp.full(2, 1e3)), None), nothing(3), None, 20_000
    )
    b = np.asarray(solve(known))
    assert np.isfinite(b).all()
    np.testing.assert_allclose(b, [0.5, 0.5, 0.0], atol=0.1)  # exactly, but for rounding


@given(st.integers(0, 10_000), st.floats(0, 8), st.integers(1, 6))
def test_ill_conditioned_systems_are_solved_or_bounded(seed, decades, k):
    rng = np.random.default_rng(seed)
    spread = 10 ** rng.uniform(-decades / 2, decades / 2, k)
    turn, _ = np.linalg.qr(rng.standard_normal((k, k)))
    gram = turn @ np.diag(spread) @ turn.T
    moment = gram @ rng.standard_normal(k)
    b = np.asarray(solve(Moments(*(jnp.asarray(v, jnp.float32) for v in (gram, moment)))))
    wanted = np.linalg.solve(np.eye(k) + gram, moment)
    assert np.isfinite(b).all()
    condition = (1 + spread.max()) / (1 + spread.min())
    error = np.linalg.norm(b - wanted) / max(np.linalg.norm(wanted), 1e-6)
    assert error <= 1e-5 * max(10, condition)


def test_a_singular_system_gives_finite_numbers():
    flat = jnp.ones((4, 4))
    assert np.isfinite(solve_positive(flat, jnp.arange(4.0))).all()
    assert np.isfinite(solve_positive(jnp.zeros((4, 4)), jnp.arange(4.0))).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_transition_that_is_not_finite_teaches_nothing(bad):
    bases, residual, _ = transitions(5)
    weight = np.ones(OUTPUTS, np.float32)
    known, _ = accumulate(bases, residual, weight)
    for poisoned in (
        include(known, bases[0], np.array([bad, 0.0]), weight),
        include(known, np.full((K, OUTPUTS), bad), residual[0], weight),
    ):
        jax.tree.map(np.testing.assert_array_equal, poisoned, known)


def test_forgetting_follows_physics_that_change():
    bases, residual, b = transitions(400)
    residual[200:] *= -1  # from now on the coefficients are −b
    weight = np.full(OUTPUTS, 1e3)
    forgets, _ = accumulate(bases, residual, weight, keep=0.95)
    remembers, _ = accumulate(bases, residual, weight)
    np.testing.assert_allclose(solve(forgets), -b, atol=1e-2)
    assert np.abs(np.asarray(solve(remembers)) + b).max() > 0.5
