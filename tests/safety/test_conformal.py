"""Calibration: exact ranks, the guarantee against whoever chooses the scores, and coverage."""

from fractions import Fraction
from functools import partial
from math import ceil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipshield.errors import HipshieldError
from hipshield.safety import conformal
from hipshield.safety.conformal import Conformal, begin, calibrated, largest, radius, slide, update

FAST = Conformal(delta=0.1, rate=0.05, window=20, warm_up=5)


@partial(jax.jit, static_argnums=(0, 1, 3, 4))
def follow(settings, choices, which, steps, step=update):
    """Calibrate on scores that choices[which] gives: (Γ, t, key) -> score.

    Returns the final state, and Γ and misses of all steps. One compilation serves all choices.
    """

    def go(state, inputs):
        gamma = radius(settings, state)
        score = jax.lax.switch(which, choices, gamma, *inputs)
        state, missed = step(settings, state, score)
        return state, (gamma, missed)

    keys = jax.random.split(jax.random.key(0), steps)
    return jax.lax.scan(go, begin(settings), (jnp.arange(steps), keys))


def calibrate(settings, scores):
    """Calibrate on given scores."""
    return _calibrate(settings, jnp.asarray(scores, jnp.float32))


@partial(jax.jit, static_argnums=0)
def _calibrate(settings, scores):
    def go(state, score):
        gamma = radius(settings, state)
        state, missed = update(settings, state, score)
        return state, (gamma, missed)

    return jax.lax.scan(go, begin(settings), scores)


def just_above(gamma, t, key):
    """Nobody can cover this, except with an infinite radius."""
    return jnp.where(jnp.isinf(gamma), 1.0, gamma * 1.01 + 0.01)


def just_enough(gamma, t, key):
    return jnp.where(jnp.isinf(gamma), 1.0, gamma)


def turncoat(gamma, t, key):
    """Harmless until the radius has shrunk, then the opposite: long runs of hits and misses."""
    return jnp.where(gamma < 0.5, 1.0 + t, 0.0)


SEQUENCES = {
    "just above Γ": just_above,
    "just Γ": just_enough,
    "turncoat": turncoat,
    "always infinite": lambda gamma, t, key: jnp.float32(jnp.inf),
    "constant": lambda gamma, t, key: jnp.float32(1),
    "constantly perfect": lambda gamma, t, key: jnp.float32(0),
    "drifting": lambda gamma, t, key: jnp.exp(t / 2000) * jax.random.uniform(key),
    "falling": lambda gamma, t, key: jnp.exp(-t / 2000) * jax.random.uniform(key),
    "heavy-tailed": lambda gamma, t, key: jnp.abs(jax.random.cauchy(key)) ** 3,
    "never a number": lambda gamma, t, key: jnp.float32(jnp.nan),
}
NAMES, CHOICES = list(SEQUENCES), tuple(SEQUENCES.values())


def worst_excess(settings, missed):
    """By how much the running share of misses exceeds its bound, at the worst of all times."""
    missed = np.asarray(missed)[settings.warm_up :].astype(float)
    t = np.arange(1, len(missed) + 1)
    bound = (1 - settings.delta + settings.rate) / (settings.rate * t)
    return (np.abs(np.cumsum(missed) / t - settings.delta) - bound).max()


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize(
    "settings", [Conformal(), Conformal(delta=0.1, rate=0.05, window=30, warm_up=10)]
)
def test_the_share_of_misses_is_guaranteed_whatever_the_scores_do(name, settings):
    state, (_, missed) = follow(settings, CHOICES, NAMES.index(name), 10_000)
    # Up to the rounding of this check itself: inside, λ is an integer.
    assert worst_excess(settings, missed) <= 1e-12
    assert state.missed == missed.sum()


@pytest.mark.slow
@pytest.mark.parametrize("name", SEQUENCES)
def test_the_guarantee_holds_for_long(name):
    state, (_, missed) = follow(Conformal(), CHOICES, NAMES.index(name), 100_000)
    assert worst_excess(Conformal(), missed) <= 1e-12
    # λ is where the count of misses says it must be: nothing has drifted in 100 000 steps.
    settings, steps = Conformal(), 100_000 - 100
    exact = Fraction("0.02") + Fraction("0.005") * (steps * Fraction("0.02") - int(missed.sum()))
    assert Fraction(int(state.level[0]), settings.units) == exact


def test_the_check_of_the_guarantee_notices_broken_rules():
    settings = Conformal(delta=0.1, rate=0.05, window=30, warm_up=10)

    def deaf(settings, state, score):  # λ never learns
        after, missed = update(settings, state, score)
        return after._replace(level=state.level), missed

    def backwards(settings, state, score):  # λ rises with misses
        after, missed = update(settings, state, score)
        return after._replace(level=2 * state.level - after.level), missed

    def lenient(settings, state, score):  # a score of zero is never missed
        after, missed = update(settings, state, score)
        missed = missed & (score > radius(settings, state))
        return after, missed

    for broken, name in (
        (deaf, "just above Γ"), (backwards, "heavy-tailed"), (lenient, "constantly perfect")
    ):  # fmt: skip
        _, (_, missed) = follow(settings, (SEQUENCES[name],), 0, 3000, broken)
        assert worst_excess(settings, missed) > 0.01, broken


def plain(settings, scores):
    """The rule with lists and fractions; returns all radii and misses."""
    delta, rate = Fraction(str(settings.delta)), Fraction(str(settings.rate))
    level, radii, misses = delta, [], []
    for t in range(len(scores)):
        window = sorted(scores[max(0, t - settings.window) : t])
        rank = ceil((len(window) + 1) * (1 - level))
        gamma = np.inf if rank > len(window) else window[rank - 1] if rank > 0 else 0.0
        missed = t >= settings.warm_up and (scores[t] > gamma or rank <= 0)
        if t >= settings.warm_up and settings.rule == "aci":
            level += rate * (delta - missed)
        radii.append(gamma if t >= settings.warm_up else np.inf)
        misses.append(missed)
    return np.array(radii, np.float32), np.array(misses)


@pytest.mark.parametrize("rule", ["aci", "window"])
@pytest.mark.parametrize(
    ("delta", "rate", "window"), [(0.02, 0.005, 200), (0.1, 0.05, 20), (0.0137, 0.011, 77)]
)
def test_radii_and_misses_equal_plain_fractions(rule, delta, rate, window):
    settings = Conformal(delta=delta, rate=rate, window=window, warm_up=30, rule=rule)
    rng = np.random.default_rng(0)
    # Rounded, so that there are ties; some of them infinite.
    scores = np.round(rng.gamma(1.0, size=1500) * np.linspace(1, 3, 1500), 1).astype(np.float32)
    scores[rng.random(1500) < 0.01] = np.inf
    _, (gamma, missed) = calibrate(settings, scores)
    wanted, missing = plain(settings, scores)
    np.testing.assert_array_equal(gamma, wanted)
    np.testing.assert_array_equal(missed, missing)


def test_known_ranks():
    # δ = 0.02: of 48 scores the ⌈49 · 0.98⌉ = 49th is not there; of 49 it is ⌈50 · 0.98⌉ = 49,
    # where 50 · 0.02f is below 1 and would have given the 50th. Of 99 it is 100 · 0.98 = 98, of 150
    # it is ⌈151 · 0.98⌉ = ⌈147.98⌉.
    _, (gamma, _) = calibrate(Conformal(warm_up=0, rule="window"), np.arange(1.0, 152))
    for n, expected in ((0, np.inf), (48, np.inf), (49, 49.0), (99, 98.0), (150, 148.0)):
        assert gamma[n] == expected
    _, (gamma, _) = calibrate(Conformal(delta=0.5, warm_up=0, rule="window"), [3, 1, 2, 0])
    np.testing.assert_array_equal(gamma, [np.inf, 3, 3, 2])  # ranks ⌈½⌉, ⌈1⌉, ⌈1½⌉, ⌈2⌉


@given(st.integers(0, 2000), st.integers(-10, 10_100))
def test_ranks_are_exact(n, level):
    settings = Conformal()
    assert settings.units == 10_000
    exact = ceil((n + 1) * (1 - Fraction(level, 10_000)))
    assert conformal._rank(settings, jnp.int32(level), jnp.int32(n)) == exact


@given(
    st.lists(st.one_of(st.integers(0, 4).map(float), st.just(np.inf), st.just(np.nan)), max_size=40)
)
def test_the_window_is_what_sorting_gives(scores):
    settings = FAST
    state, step = begin(settings), _step
    for score in scores:
        state = step(state, score)[0]
    last = np.nan_to_num(np.array(scores[-20:], np.float32), nan=np.inf, posinf=np.inf)
    wanted = np.full(20, np.inf, np.float32)
    wanted[: len(last)] = np.sort(last)
    np.testing.assert_array_equal(state.ordered, wanted)
    finite = last[np.isfinite(last)]
    assert largest(state) == (finite.max() if finite.size else 0)


_step = jax.jit(partial(update, FAST))


def test_sliding_by_hand():
    inf = np.inf
    three = jnp.array([1.0, 2.0, 2.0, inf])
    np.testing.assert_array_equal(slide(three, inf, 2.0), [1, 2, 2, 2])  # a place was free
    np.testing.assert_array_equal(slide(three, 2.0, 0.0), [0, 1, 2, inf])
    np.testing.assert_array_equal(slide(three, 1.0, inf), [2, 2, inf, inf])
    np.testing.assert_array_equal(slide(three, 1.0, 5.0), [2, 2, 5, inf])


@given(st.permutations(list(range(15))), st.sampled_from([0.1, 0.5]))
def test_order_does_not_matter_and_gamma_falls_with_delta(order, delta):
    settings = Conformal(delta=delta, window=20, warm_up=0, rule="window")
    stricter = Conformal(delta=delta / 2, window=20, warm_up=0, rule="window")
    scores = np.square(np.arange(15.0))
    gamma = _after(settings, scores)
    assert _after(settings, scores[list(order)]) == gamma
    assert _after(stricter, scores) >= gamma


def _after(settings, scores):
    return radius(settings, calibrate(settings, scores)[0])


@pytest.mark.parametrize("rule", conformal.RULES)
def test_exchangeable_scores_are_covered(rule):
    steps, settings = 20_000, Conformal(rule=rule)
    scores = np.random.default_rng(0).exponential(size=steps)
    _, (_, missed) = calibrate(settings, scores)
    rate = np.asarray(missed)[settings.warm_up :].mean()
    # Four standard deviations of a binomial; a window of 200 has ranks of ⌈201 · 0.98⌉ / 201.
    band = 4 * np.sqrt(0.02 * 0.98 / steps) + 1 / 201
    assert abs(rate - 0.02) < band


def test_under_drift_a_fixed_level_loses_coverage_and_adaptive_ones_do_not():
    # Errors that double every 50 steps: a window of 200 is always four doublings behind.
    t = np.arange(20_000)
    scores = 2.0 ** ((t % 1000) / 50) * np.random.default_rng(0).uniform(size=len(t))
    rates = {}
    for rule in conformal.RULES:
        _, (_, missed) = calibrate(Conformal(rule=rule), scores)
        rates[rule] = float(np.asarray(missed)[100:].mean())
    assert rates["window"] > 0.04
    assert abs(rates["aci"] - 0.02) < 0.005
    assert rates["dtaci"] < 0.025


def test_dtaci_of_one_rate_is_aci(monkeypatch):
    settings = Conformal(delta=0.1, rate=0.05, window=30, warm_up=10)
    scores = np.abs(np.random.default_rng(2).standard_cauchy(500))
    _, (gamma, missed) = calibrate(settings, scores)
    monkeypatch.setattr(conformal, "_DTACI_RATES", (Fraction("0.05"), Fraction("0.05")))
    twice = Conformal(delta=0.1, rate=0.05, window=30, warm_up=10, rule="dtaci")
    _, (twice_gamma, twice_missed) = calibrate(twice, scores)
    np.testing.assert_array_equal(gamma, twice_gamma)
    np.testing.assert_array_equal(missed, twice_missed)


def test_dtaci_follows_a_plain_loop_and_its_published_figures():
    # Gibbs & Candès' code has η = 2.72 for δ = 0.1, a span of 500 and eight rates.
    assert conformal._eta(0.1) == pytest.approx(2.72, abs=0.005)
    settings = Conformal(delta=0.1, window=50, warm_up=10, rule="dtaci")
    rng = np.random.default_rng(1)
    scores = (rng.gamma(1.0, size=400) * np.repeat([1, 4], 200)).astype(np.float32)
    state, (_, missed) = calibrate(settings, scores)
    rates = 0.001 * 2.0 ** np.arange(8)
    level, weight, count = np.full(8, 0.1), np.full(8, 1 / 8), 0
    for t in range(10, 400):
        window = np.sort(scores[max(0, t - 50) : t])
        n = len(window)
        beta = 1 - (window < scores[t]).sum() / (n + 1)
        count += beta <= weight @ level + 1e-9
        loss = 0.1 * (beta - level) - np.minimum(0, beta - level)
        new = level + rates * (0.1 - (beta <= level + 1e-9))
        weight = weight * np.exp(-conformal._eta(0.1) * loss)
        weight = 0.999 * weight / weight.sum() + 0.001 / 8
        level = new
    np.testing.assert_allclose(np.asarray(state.level) / settings.units, level, atol=1e-6)
    np.testing.assert_allclose(state.weight, weight, rtol=1e-3)
    assert abs(int(missed.sum()) - count) <= 1  # the working level is rounded to a unit


def test_warming_up():
    state = begin(FAST)
    assert not calibrated(FAST, state)
    assert radius(FAST, state) == np.inf
    told = begin(FAST, prior=0.3)
    assert calibrated(FAST, told)
    for t in range(5):
        assert radius(FAST, told) == np.float32(0.3)
        told, missed = _step(told, 100.0 + t)
        state, _ = _step(state, 1.0)
        assert not missed
    assert (told.level[0], told.missed) == (begin(FAST).level[0], 0)
    assert calibrated(FAST, state)
    assert radius(FAST, told) == np.inf  # ⌈6 · 0.9⌉ = 6 of 5
    assert largest(told) == 104


def test_what_was_not_predicted_changes_nothing():
    state = begin(FAST)
    for score in range(30):
        state, _ = _step(state, float(score))
    after, missed = _step(state, 1e9, False)
    assert not missed
    jax.tree.map(np.testing.assert_array_equal, after, state)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"delta": 0.0}, "between 0 and 1"),
        ({"rate": 1.0}, "between 0 and 1"),
        ({"window": 0}, "window ≥ 1"),
        ({"rule": "dtac"}, "Did you mean 'dtaci'"),
        ({"delta": 0.0123456}, "fewer digits"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, says):
    with pytest.raises(HipshieldError, match=says):
        Conformal(**wrong)
