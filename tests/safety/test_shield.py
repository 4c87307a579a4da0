"""The shield against a wall: stopping distances worked by hand, rules, and every kind of fault."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from point_mass import EXACT, GRIP, STEP, PointMass, drive, hazards, tracks, walls

from hipshield.errors import HipshieldError
from hipshield.safety import batch, conformal
from hipshield.safety import shield as one
from hipshield.safety.conformal import Conformal
from hipshield.safety.settings import paper, plan, spread_leads
from hipshield.safety.shield import Glance, Reason, Situation
from hipshield.worlds.margins import margin

ROBOTS, N, HORIZON, WALL = 8, 4, 30, 2.0
# Radii that stay what they are told: warming up never ends.
TOLD = Conformal(warm_up=10**6)
PLAN = plan(PointMass(), HORIZON, samples=N, conformal=TOLD)
PAPER = paper(PointMass(), samples=N, conformal=TOLD)
WRONG = EXACT._replace(theta=jnp.float32(3.0))  # believes in three times the grip


def keys(count, seed=0):
    return jax.random.split(jax.random.key(seed), count)


def rows(values):
    """Repeat rows until there is one for each robot: one batch size, one compilation."""
    values = np.asarray(values, np.float32)
    return np.resize(values, (ROBOTS, *values.shape[1:]))


def facing(track, samples, scene, seed=0, ahead=None):
    samples = jnp.asarray(samples, jnp.float32)
    return Situation(track, samples, scene, keys(len(samples), seed), ahead)


FORWARD = np.broadcast_to(np.array([1.0, 0.0]), (ROBOTS, N, 2))


def outward(robots, seed=0):
    """A policy that drives at full speed to the wall at +x, more or less."""
    rng = np.random.default_rng(seed)
    samples = rng.uniform(-1, 1, (robots, N, 2)).astype(np.float32)
    samples[:, :, 0] = rng.uniform(0.5, 1, (robots, N))
    samples[:, 0] = (1.0, 0.3)
    return samples


def least_margins(settings, params, steps=150):
    """The least margin that each of 8 robots meets, driving at the wall from all over the place."""
    rng = np.random.default_rng(0)
    track = tracks(rng.uniform(-1, 1, (ROBOTS, 2)), rng.uniform(-1, 1, (ROBOTS, 2)))
    scene, state = walls(ROBOTS, WALL), batch.begin(settings, ROBOTS, 0.0)
    found = []
    for t in range(steps):
        situation = facing(track, outward(ROBOTS, t), scene, t)
        action, state, _ = batch.decide(settings, params, state, situation)
        track = drive(track, action)
        found.append(margin(track.z[:, :2], scene))
    return np.min(found, 0)


def test_planning_with_the_exact_model_never_violates_and_uses_the_room_there_is():
    least = least_margins(PLAN, EXACT)
    assert (least > 0).all()
    assert least.max() < 0.1  # it does drive up to the wall


def test_one_step_ahead_is_seen_to_fail_on_the_same_robot():
    assert (least_margins(PAPER, EXACT) < -0.1).sum() > ROBOTS / 2


def test_planning_with_a_wrong_model_is_seen_to_fail():
    assert (least_margins(PLAN, WRONG) < -0.1).sum() > ROBOTS / 2


def test_stopping_distances_by_hand():
    # At 1 m/s and full throttle the next step covers (1 + 1.1) / 2 · 0.05 = 0.0525 m and leaves
    # 1.1 m/s, which takes 1.1² / (2 · 2) = 0.3025 m to stop: 0.355 m in all. Braking at once takes
    # 1 / (2 · 2) = 0.25 m.
    distance = rows([0.36, 0.35, 0.26, 0.24])
    track = tracks(np.c_[WALL - distance, np.zeros(ROBOTS)], rows([[1.0, 0.0]]))
    situation = facing(track, FORWARD, walls(ROBOTS, WALL))
    action, _, verdict = batch.decide(PLAN, EXACT, batch.begin(PLAN, ROBOTS, 0.0), situation)
    wanted = [Reason.OWN_SAFE, Reason.REPLACED, Reason.REPLACED, Reason.NOTHING_SAFE]
    np.testing.assert_array_equal(verdict.reason, rows(wanted))
    np.testing.assert_array_equal(verdict.empty, rows([False, False, False, True]))
    np.testing.assert_array_equal(verdict.intervened, rows([False, True, True, True]))
    np.testing.assert_array_equal(action[0], [1, 0])
    assert -1 <= action[1, 0] < 1  # at 0.35 m coasting would do: 0.05 + 0.25 = 0.3 m
    np.testing.assert_allclose(action[2:4, 0], [-1, -1])
    np.testing.assert_allclose(verdict.score[0], 0.36 - 0.355, atol=1e-3)
    np.testing.assert_allclose(verdict.margin, distance, rtol=1e-5)
    np.testing.assert_allclose(verdict.path[3, :, 0].max(), WALL + 0.01, atol=1e-3)


def test_doubt_is_taken_off_twice_at_each_step():
    # The same robot at 0.36 m scores 0.005 with Γ = 0; a radius of 4 mm takes 8 mm off.
    track = tracks(rows([[WALL - 0.36, 0.0]]), rows([[1.0, 0.0]]))
    state = jax.vmap(partial(one.begin, PLAN))(rows([0.0, 0.004]))
    _, _, verdict = batch.decide(PLAN, EXACT, state, facing(track, FORWARD, walls(ROBOTS, WALL)))
    np.testing.assert_array_equal(verdict.reason[:2], [Reason.OWN_SAFE, Reason.REPLACED])
    np.testing.assert_allclose(verdict.gamma[1], np.full(HORIZON, 0.004), rtol=1e-6)


def test_a_hazard_that_comes_nearer_is_seen_coming():
    # All stand still. Every other hazard stays 1 m away, the others come at 0.03 m a step.
    track = tracks(np.zeros((ROBOTS, 2)), np.zeros((ROBOTS, 2)))
    far = np.stack([np.ones(HORIZON), np.linspace(1.0, 0.1, HORIZON)])
    way = rows(far[..., None, None] * np.array([1.0, 0.0]))  # (robots, horizon, hazards, 2)
    now = hazards(way[:, 0])
    ahead = jax.tree.map(lambda v: np.stack([v] * HORIZON, 1), now)._replace(obstacles=way)
    idle, state = np.zeros((ROBOTS, N, 2)), batch.begin(PLAN, ROBOTS, 0.0)
    action, _, verdict = batch.decide(PLAN, EXACT, state, facing(track, idle, now, ahead=ahead))
    np.testing.assert_array_equal(verdict.reason, rows([Reason.OWN_SAFE, Reason.REPLACED]))
    assert np.abs(action[1]).max() > 0
    _, _, still = batch.decide(PLAN, EXACT, state, facing(track, idle, now))
    assert (still.reason == Reason.OWN_SAFE).all()


# The paper's rules


def test_the_papers_steps_on_four_robots():
    # All stand still, one step moves them by ½ · 0.05 · 0.1 a = 2.5 a millimetres. With Δ = 75 mm
    # the first, 1 m from the wall, is clear. At 20 mm the scores are 20 − 2.5 a − 2 Γ: with Γ = 5
    # mm all samples are safe, with Γ = 9.5 mm only those with a < 0.4. The last is past the wall.
    gap = rows([1.0, 0.02, 0.02, -1.0])
    track = tracks(np.c_[WALL - gap, np.zeros(ROBOTS)], np.zeros((ROBOTS, 2)))
    samples = rows([np.c_[[0.9, 1.0, -0.5, 0.3], np.zeros(N)]])
    state = jax.vmap(partial(one.begin, PAPER))(rows([0.005, 0.005, 0.0095, 0.005]))
    scene, chosen = walls(ROBOTS, WALL), [set() for _ in range(ROBOTS)]
    for seed in range(8):
        situation = facing(track, samples, scene, seed)
        action, _, verdict = batch.decide(PAPER, EXACT, state, situation)
        for i in range(ROBOTS):
            chosen[i].add(round(float(action[i, 0]), 3))
    # Uniform over the best k = 2 of the safe ones, and the best of all where none is.
    assert chosen == [{0.9}, {-0.5, 0.3}, {-0.5, 0.3}, {-0.5}] * 2
    np.testing.assert_array_equal(verdict.triggered, rows([False, True, True, True]))
    np.testing.assert_array_equal(verdict.empty, rows([False, False, False, True]))
    assert verdict.reason[0] == Reason.CLEAR
    assert verdict.reason[3] == Reason.NOTHING_SAFE
    assert np.isnan(verdict.path[0]).all()
    best = batch.decide(replace(PAPER, k=1), EXACT, state, situation)[0]
    np.testing.assert_allclose(best[:, 0], rows([0.9, -0.5, -0.5, -0.5]))


def test_of_the_safe_ones_each_of_the_best_is_as_likely():
    score = jnp.array([0.5, 2.0, -1.0, 1.0, 3.0, -0.5])
    options = one.Options(jnp.zeros((6, 1)), score == score, score, score > 0, score, -score)

    def counts(options, k):
        row = jax.vmap(lambda key: one.CHOICES["top-k"](options, k, key))(keys(3000))
        return np.bincount(row, minlength=6)

    found = counts(options, 3)
    assert set(np.flatnonzero(found)) == {4, 1, 3}
    assert np.abs(found[found > 0] - 1000).max() < 4 * np.sqrt(3000 * 2 / 9)
    assert set(np.flatnonzero(counts(options, 10))) == {0, 1, 3, 4}  # never an unsafe one
    only = options._replace(safe=score > 2.5)
    assert set(np.flatnonzero(counts(only, 3))) == {4}


def test_the_other_rules():
    first = jnp.array([[0.0], [1.0], [0.2], [-0.1]])
    score = jnp.array([-1.0, 5.0, 1.0, -2.0])
    options = one.Options(first, score == score, score, score > 0, score, jnp.array([3.0, 9, 8, 2]))
    key = jax.random.key(0)
    assert one.CHOICES["nearest"](options, 2, key) == 2
    assert one.CHOICES["own-or-best"](options, 2, key) == 1
    own = options._replace(safe=jnp.ones(4, bool))
    assert one.CHOICES["nearest"](own, 2, key) == 0
    assert one.CHOICES["own-or-best"](own, 2, key) == 0
    assert one.FALLBACKS["best-score"](options) == 1
    assert one.FALLBACKS["least-violation"](options) == 3


# Calibration


def test_without_a_prior_the_policy_acts_until_errors_are_known():
    settings = paper(PointMass(), samples=N, conformal=Conformal(delta=0.5, warm_up=2))
    track = tracks(rows([[WALL + 1, 0.0]]), rows([[0.0, 0.0]]))
    state, reasons = batch.begin(settings, ROBOTS), []
    for t in range(4):
        situation = facing(track, FORWARD, walls(ROBOTS, WALL), t)
        action, state, verdict = batch.decide(settings, EXACT, state, situation)
        reasons.append(Reason(int(verdict.reason[0])))
        after = drive(track, action)
        state, _ = batch.observe(settings, EXACT, state, track, action, after)
        track = after
    assert reasons == [Reason.UNCALIBRATED] * 2 + [Reason.NOTHING_SAFE] * 2


def test_scores_are_the_errors_of_predictions_made_then():
    # A model that believes in 3 times the grip is wrong by 2 · ½ · 2 · (0.05 h)² after h steps.
    track = tracks(rows([[0.0, 0.0]]), rows([[0.3, 0.0]]))
    settings = replace(PLAN, conformal=Conformal(delta=0.3, window=4, warm_up=1))
    state, action = batch.begin(settings, ROBOTS), jnp.asarray(rows([[1.0, 0.0]]))
    for _ in range(HORIZON + 3):
        after = drive(track, action)
        state, missed = batch.observe(settings, WRONG, state, track, action, after)
        track = after
    wanted = 2 * 0.5 * GRIP * (STEP * np.array(settings.leads)) ** 2
    seen = state.calibration.seen[0]
    np.testing.assert_array_equal(seen, HORIZON + 4 - np.array(settings.leads))
    np.testing.assert_allclose(state.calibration.ordered[0, :, 2], wanted, rtol=1e-3)
    assert missed.shape == (ROBOTS, len(settings.leads))


def test_between_lead_times_the_larger_radius_counts():
    settings = replace(PAPER, horizon=7, leads=(2, 4, 7))
    start = partial(conformal.begin, settings.conformal)
    gamma, cap = one.radii(settings, jax.vmap(start)(jnp.array([0.1, 0.3, 0.2])))
    np.testing.assert_allclose(gamma, [0.1, 0.1, 0.3, 0.3, 0.3, 0.3, 0.2])
    np.testing.assert_array_equal(cap, gamma)
    gamma, cap = one.radii(settings, jax.vmap(start)(jnp.array([0.1, jnp.inf, 0.2])))
    np.testing.assert_allclose(gamma, [0.1, 0.1, *[np.inf] * 4, 0.2])
    np.testing.assert_allclose(cap, [0.1, 0.1, 0.1, 0, 0.2, 0.2, 0.2])
    assert spread_leads(40) == (1, 2, 3, 5, 8, 13, 21, 34, 40)
    assert (spread_leads(1), spread_leads(2), spread_leads(5)) == ((1,), (1, 2), (1, 2, 3, 5))


def test_infinite_radii_leave_nothing_safe_and_the_least_bad_still_known():
    # Towards the wall at 1 m/s, 0.2 m away: nothing stops in time, full braking is the least bad.
    track = tracks(rows([[WALL - 0.2, 0.0]]), rows([[1.0, 0.0]]))
    situation = facing(track, outward(ROBOTS), walls(ROBOTS, WALL))
    for prior in (np.inf, 0.0):
        state = batch.begin(PLAN, ROBOTS, prior)
        action, _, verdict = batch.decide(PLAN, EXACT, state, situation)
        assert verdict.reason[0] == Reason.NOTHING_SAFE
        assert action[0, 0] == -1
        assert not np.isnan(verdict.score[0])


@given(
    st.lists(st.floats(0, 3, width=32), min_size=7, max_size=7),
    st.lists(st.floats(0, 1, width=32) | st.just(np.inf), min_size=7, max_size=7),
    st.integers(0, 2**31),
)
def test_larger_radii_never_enlarge_the_safe_set(gamma, more, seed):
    rng = np.random.default_rng(seed)
    gamma, more = jnp.array(gamma), jnp.array(more)
    ahead = jnp.asarray(rng.normal(2, 2, (5, 7)), jnp.float32)
    small, large = _options(gamma, ahead), _options(gamma + more, ahead)
    assert not (large.safe & ~small.safe).any()
    assert (large.score <= small.score).all()
    np.testing.assert_allclose(small.score, (ahead - 2 * gamma).min(1), rtol=1e-4, atol=1e-5)


@jax.jit
def _options(gamma, ahead):
    settings = replace(PAPER, horizon=7, leads=(7,))
    forecast = one.Forecast(jnp.zeros((5, 7, 2)), jnp.zeros((5, 7, 2)))
    seen = Glance(**dict.fromkeys(Glance._fields))._replace(gamma=gamma, cap=gamma)
    return one.assess(settings, forecast, ahead, jnp.ones(5, bool), seen)


# What holds for any input


@given(st.integers(0, 2**31), st.booleans())
def test_safe_proposals_are_returned_bit_for_bit(seed, near):
    settings = PLAN if near else PAPER
    rng = np.random.default_rng(seed)
    track = tracks(rng.uniform(-0.5, 0.5, (ROBOTS, 2)), rng.uniform(-1, 1, (ROBOTS, 2)))
    samples = rng.uniform(-1, 1, (ROBOTS, N, 2)).astype(np.float32)
    samples[0, 0], samples[1, 0] = (-0.0, 0.0), (1e-40, -1.0)
    situation = facing(track, samples, walls(ROBOTS, WALL))
    action, _, verdict = batch.decide(
        settings, EXACT, batch.begin(settings, ROBOTS, 0.0), situation
    )
    assert (verdict.reason == (Reason.OWN_SAFE if near else Reason.CLEAR)).all()
    assert np.asarray(action).tobytes() == samples[:, 0].tobytes()


@given(st.integers(0, 2**31), st.sampled_from([PLAN, PAPER]))
def test_actions_stay_within_bounds_and_are_explained(seed, settings):
    rng = np.random.default_rng(seed)
    track = tracks(rng.normal(0, 2, (ROBOTS, 2)), rng.normal(0, 2, (ROBOTS, 2)))
    samples = rng.normal(0, 10, (ROBOTS, N, 2))
    state = batch.begin(settings, ROBOTS, 0.01)
    situation = facing(track, samples, walls(ROBOTS, WALL), seed)
    action, after, verdict = batch.decide(settings, EXACT, state, situation)
    assert (np.abs(action) <= 1).all()
    own = np.clip(samples[:, 0].astype(np.float32), -1, 1)
    passed = np.isin(verdict.reason, [Reason.CLEAR, Reason.OWN_SAFE])
    np.testing.assert_array_equal(np.asarray(action)[passed], own[passed])
    np.testing.assert_array_equal(verdict.empty, verdict.reason == Reason.NOTHING_SAFE)
    assert (verdict.score[verdict.reason == Reason.REPLACED] > 0).all()
    assert np.isfinite(after.previous).all()


def random_case(seed=0):
    """Robots at 0 to 30 cm from hazards, driving towards them."""
    rng = np.random.default_rng(seed)
    angle, distance = rng.uniform(-np.pi, np.pi, ROBOTS), rng.uniform(0.2, 0.5, ROBOTS)
    away = np.c_[np.cos(angle), np.sin(angle)]
    track = tracks(distance[:, None] * away, -rng.uniform(0, 1, (ROBOTS, 1)) * away)
    samples = rng.uniform(-1, 1, (ROBOTS, N, 2)).astype(np.float32)
    centres = rng.uniform(3, 4, (ROBOTS, 3, 2))
    centres[:, 0] = 0
    return facing(track, samples, hazards(centres))


@pytest.mark.parametrize("settings", [PLAN, PAPER])
def test_a_batch_is_its_robots_and_a_key_is_an_answer(settings):
    situation, state = random_case(), batch.begin(settings, ROBOTS, 0.005)
    together = batch.decide(settings, EXACT, state, situation)
    jax.tree.map(
        np.testing.assert_array_equal, together, batch.decide(settings, EXACT, state, situation)
    )
    assert len(set(np.asarray(together[2].reason))) > 1
    # Compiled for one robot, without the batch's detour over those that have to be checked.
    alone = jax.jit(partial(one.decide, settings))
    for i in range(ROBOTS):
        mine = jax.tree.map(lambda v, i=i: v[i], (state, situation, together))
        action, after, verdict = alone(EXACT, *mine[:2])
        np.testing.assert_array_equal(action, mine[2][0])
        np.testing.assert_allclose(after.previous, mine[2][1].previous, atol=1e-5)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), verdict, mine[2][2])


@pytest.mark.parametrize("settings", [PLAN, PAPER])
def test_the_order_of_the_other_samples_does_not_matter(settings):
    situation, state = random_case(1), batch.begin(settings, ROBOTS, 0.005)
    action, _, verdict = batch.decide(settings, EXACT, state, situation)
    turned = situation._replace(samples=situation.samples[:, jnp.array([0, 3, 1, 2])])
    other, _, again = batch.decide(settings, EXACT, state, turned)
    np.testing.assert_array_equal(action, other)
    np.testing.assert_array_equal(verdict.reason, again.reason)


def faults():
    """Name, and what it does to a situation: one row of it is hurt."""

    def hurt(get, put, index, value):
        def go(situation, row):
            values = np.array(get(situation), np.float32)
            values[(row, *index)] = value
            return put(situation, values)

        return go

    def z(situation, v):
        return situation._replace(track=situation.track._replace(z=v))

    def belief(situation, v):
        return situation._replace(track=situation.track._replace(belief=v))

    def scene(field):
        return lambda s, v: s._replace(scene=s.scene._replace(**{field: v}))

    for value in (np.nan, np.inf, -np.inf):
        for index in range(4):
            yield "z", value, hurt(lambda s: s.track.z, z, (index,), value)
        yield "b", value, hurt(lambda s: s.track.belief, belief, (0,), value)
        for row in (0, N - 1):
            put = lambda s, v: s._replace(samples=v)  # noqa: E731
            yield "samples", value, hurt(lambda s: s.samples, put, (row, 1), value)
        for field, index in (("obstacles", (1, 0)), ("radius", ()), ("wall", ()), ("speed", ())):
            get = lambda s, field=field: getattr(s.scene, field)  # noqa: E731
            yield "scene", value, hurt(get, scene(field), index, value)


@pytest.mark.parametrize("settings", [PLAN, PAPER])
@pytest.mark.parametrize("seed", [2, 3])
def test_every_fault_gets_a_finite_answer_and_a_flag(settings, seed):
    cases = list(faults())
    for start in range(0, len(cases), ROBOTS):
        situation, some = random_case(seed), cases[start : start + ROBOTS]
        for row, (_, _, go) in enumerate(some):
            situation = go(situation, row)
        state = batch.begin(settings, ROBOTS, 0.005)
        action, after, verdict = batch.decide(settings, EXACT, state, situation)
        assert (np.abs(action) <= 1).all()
        assert np.isfinite(after.previous).all()
        for row, (where, value, _) in enumerate(some):
            # In a scene, infinity says that something is not there, or everywhere: no fault.
            flagged = np.isnan(value) or where != "scene"
            assert (verdict.reason[row] == Reason.FAULT) == flagged, (where, value)
        for _ in range(3):  # and the calibration survives it
            track = situation.track
            after, _ = batch.observe(settings, EXACT, after, track, action, track)
        assert not np.isnan(after.calibration.ordered).any()


@pytest.mark.parametrize("theta", [np.nan, np.inf, 1e20])
def test_a_model_that_diverges_is_not_believed(theta):
    near = random_case()
    for settings in (PLAN, PAPER):
        broken = EXACT._replace(theta=jnp.float32(theta))
        state = batch.begin(settings, ROBOTS, 0.0)
        action, _, verdict = batch.decide(settings, broken, state, near)
        assert np.isfinite(action).all()
        reasons = set(np.asarray(verdict.reason))
        assert Reason.FAULT in reasons
        assert reasons <= {Reason.FAULT, Reason.CLEAR}


def test_when_blind_the_previous_plan_goes_on():
    track = tracks(rows([[WALL - 0.26, 0.0]]), rows([[1.0, 0.0]]))
    scene, state = walls(ROBOTS, WALL), batch.begin(PLAN, ROBOTS, 0.0)
    samples = outward(ROBOTS)
    _, state, _ = batch.decide(PLAN, EXACT, state, facing(track, samples, scene))
    nowhere = track._replace(z=track.z.at[0, 0].set(jnp.nan))
    for _ in range(5):
        situation = facing(nowhere, samples, scene)
        action, state, verdict = batch.decide(PLAN, EXACT, state, situation)
        assert verdict.reason[0] == Reason.FAULT
        np.testing.assert_allclose(action[0, 0], -1)  # it was braking


def test_everything_compiles_once():
    settings = replace(PLAN, kappa=0.9)  # nobody else's, so nothing is compiled yet
    before = batch.trace_counts.copy()
    track, scene = tracks(np.zeros((ROBOTS, 2)), np.zeros((ROBOTS, 2))), walls(ROBOTS, WALL)
    state = batch.begin(settings, ROBOTS, 0.0)
    for t in range(3):
        situation = facing(track, outward(ROBOTS, t), scene, t)
        action, state, _ = batch.decide(settings, EXACT, state, situation)
        after = drive(track, action)
        state, _ = batch.observe(settings, EXACT, state, track, action, after)
        track = after
    assert set((batch.trace_counts - before).values()) == {1}
    # A weak type would compile everything again for a state that is loaded from a file.
    assert not any(leaf.weak_type for leaf in jax.tree.leaves((state, action)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"choice": "nearst"}, "Did you mean 'nearest'"),
        ({"fallback": "none"}, "knows no 'none'"),
        ({"sources": ("library",)}, "include the policy's 'samples'"),
        ({"samples": 0}, "samples"),
        ({"leads": (2, 1)}, "ascend"),
        ({"leads": (1, 2)}, "horizon 1"),
        ({"leads": ()}, "ascend"),
        ({"doubt": -1.0}, "doubt"),
        ({"low": 1.0}, "low < high"),
        ({"high": (1.0, 2.0, 3.0)}, "one for each of 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, says):
    with pytest.raises(HipshieldError, match=says):
        paper(PointMass(), **changes)


def test_too_few_samples_are_refused():
    situation = facing(tracks(np.zeros((1, 2)), np.zeros((1, 2))), outward(1)[:, :2], walls(1, 1))
    with pytest.raises(HipshieldError, match=r"\(4, 2\) samples"):
        batch.decide(PAPER, EXACT, batch.begin(PAPER, 1), situation)
