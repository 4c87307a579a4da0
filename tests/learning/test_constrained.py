"""CPO's dual is the one of Achiam et al. (2017), Appendix 10.2: g is the gradient of a *loss*.

    minimise gᵀx  subject to  c + bᵀx ≤ 0  and  xᵀHx / 2 ≤ δ,    x = -H⁻¹(g + ν b) / λ

In coordinates where H is the identity, u = H^(-1/2) g and w = H^(-1/2) b are vectors of the plane
that they span: everything below can be drawn.
"""

import itertools
from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import distance64, fisher64, gradient64, make_case, surrogate64, take

from hipshield.learning.constrained import Constrained, find_case, solve_dual
from hipshield.learning.policy_steps import Natural

solve = jax.jit(solve_dual)


def dual(lam, q, r, s, c, kl):
    """The dual at λ, for the best ν ≥ 0; and that ν, which is where its derivative is zero."""
    nu = np.maximum(lam * c - r, 0.0) / s
    return -(q + 2 * r * nu + s * nu**2) / (2 * lam) + nu * c - lam * kl, nu


def best_on_a_grid(q, r, s, c, kl):
    """Maximise the dual over λ by trying: 4000 values over twelve decades, then between two."""
    lam = np.geomspace(1e-6, 1e6, 4000)
    for _ in range(2):
        i = np.argmax(dual(lam, q, r, s, c, kl)[0])
        lam = np.linspace(lam[max(i - 1, 0)], lam[min(i + 1, len(lam) - 1)], 4000)
    i = np.argmax(dual(lam, q, r, s, c, kl)[0])
    return lam[i], *(part[i] for part in dual(lam, q, r, s, c, kl))


def best_in_the_plane(u, w, c, kl):
    """Minimise u·x over the disc |x|² ≤ 2δ cut by c + w·x ≤ 0, by drawing it.

    Either the lowest point of the disc is on the right side of the line, or the solution is the
    lower one of the two points where the line cuts the circle.
    """
    radius, s = np.sqrt(2 * kl), w @ w
    free = -radius * u / np.linalg.norm(u)
    if c + w @ free <= 0:
        return free
    along = u - (u @ w) / s * w
    half = np.sqrt(max(2 * kl - c**2 / s, 0.0))
    return -c * w / s - half * along / np.linalg.norm(along)


def draw_vectors(sizes, angle):
    u = sizes[0] * np.array([1.0, 0.0])
    w = sizes[1] * np.array([np.cos(angle), np.sin(angle)])
    return u, w


positive = st.floats(0.05, 5.0)
planes = {
    "sizes": st.tuples(positive, positive),
    "angle": st.floats(0.05, np.pi - 0.05),
    "where": st.floats(-1.6, 0.97),  # c as a fraction of the most that the region can change
    "kl": st.floats(1e-3, 0.1),
}


@given(**planes)
def test_dual_agrees_with_brute_force(sizes, angle, where, kl):
    u, w = draw_vectors(sizes, angle)
    q, r, s = u @ u, u @ w, w @ w
    c = where * np.sqrt(2 * kl * s)
    got = solve(q, r, s, c, kl)
    if min(abs(where + 1), abs(where)) > 1e-3:  # float32 may see the edge on its other side
        assert int(got.case) == (3 if where < -1 else 2 if where < 0 else 1)
    lam, value, nu = best_on_a_grid(q, r, s, c, kl)
    scale = np.sqrt(2 * kl * q)  # the most that the objective can change
    reached, kkt = dual(float(got.lam), q, r, s, c, kl)
    assert reached > value - 1e-3 * scale
    assert float(got.nu) == pytest.approx(kkt, rel=1e-3, abs=1e-3 * np.sqrt(q / s))
    # Away from the edge, where the dual is flat, λ and ν themselves are the brute ones.
    if abs(where) < 0.9:
        assert float(got.lam) == pytest.approx(lam, rel=0.01)
        assert float(got.nu) == pytest.approx(nu, rel=0.01, abs=0.01 * np.sqrt(q / s))


@given(**planes)
def test_dual_leads_to_the_best_point_of_the_plane(sizes, angle, where, kl):
    u, w = draw_vectors(sizes, angle)
    c = where * np.sqrt(2 * kl) * np.linalg.norm(w)
    got = solve(u @ u, u @ w, w @ w, c, kl)
    x = -(u + float(got.nu) * w) / float(got.lam)
    best = best_in_the_plane(u, w, c, kl)
    assert np.linalg.norm(x - best) < 0.01 * np.sqrt(2 * kl)
    # Primal and dual meet: what the dual promises is what the point delivers.
    promised, _ = dual(float(got.lam), u @ u, u @ w, w @ w, c, kl)
    assert promised == pytest.approx(u @ best, abs=0.01 * np.sqrt(2 * kl) * np.linalg.norm(u))


def test_the_references_are_right_by_hand():
    # Downhill is (-1, 0); the disc has radius 1 (δ = 1/2); the line is x ≥ -0.6. It cuts the
    # circle at (-0.6, ±0.8): with u turned up a little, the lower point is (-0.6, -0.8).
    u, w, c = np.array([1.0, 0.1]), np.array([-1.0, 0.0]), -0.6
    np.testing.assert_allclose(best_in_the_plane(u, w, c, 0.5), [-0.6, -0.8], atol=1e-12)
    lam, value, nu = best_on_a_grid(u @ u, u @ w, w @ w, c, 0.5)
    # There u + ν w + λ x = 0: 0.1 = 0.8 λ, so λ = 0.125; 1 - ν - 0.075 = 0, so ν = 0.925.
    assert (lam, nu) == pytest.approx((0.125, 0.925), rel=1e-3)
    assert value == pytest.approx(-0.6 - 0.08, rel=1e-6)
    got = solve(u @ u, u @ w, w @ w, c, 0.5)
    assert (float(got.lam), float(got.nu)) == pytest.approx((0.125, 0.925), rel=1e-4)
    # Another sign of r is another problem: the comparisons see it.
    other = solve(u @ u, -(u @ w), w @ w, c, 0.5)
    assert abs(float(other.lam) - lam) > 0.1 * lam


@pytest.mark.parametrize(("s", "c", "case"), [
    (0.0, -1.0, 4),  # the cost does not change, and is allowed
    (1.0, -1.5, 3),  # δ = 1/2 reaches 1 far: at distance 1.5 from the line all is safe
    (1.0, -0.5, 2),
    (1.0, 0.5, 1),
    (1.0, 1.5, 0),  # nothing within reach is safe
    (0.0, 1.0, 0),  # the cost is too high and does not change
    (1.0, 0.0, 1),  # exactly on the line counts as outside
])  # fmt: skip
def test_every_case_by_hand(s, c, case):
    assert int(find_case(s, c, 0.5)) == case
    got = solve(1.0, 0.0, s, c, 0.5)
    assert int(got.case) == case
    assert np.isfinite([float(got.lam), float(got.nu)]).all()
    if case >= 3:
        # λ = √(q / 2δ) = 1: the step is the whole radius along the gradient.
        assert (float(got.lam), float(got.nu)) == (1.0, 0.0)
    if (s, case) == (1.0, 2):
        # r = 0: moving along the line costs nothing, as if there were no constraint.
        assert (float(got.lam), float(got.nu)) == pytest.approx((1.0, 0.0), abs=1e-6)
    if (s, c) == (1.0, 0.5):
        # x = (-√(1 - 1/4), -1/2): λ = 1 / √(3/4) = 1.1547005, ν = λ / 2 = 0.5773503.
        assert (float(got.lam), float(got.nu)) == pytest.approx((1.1547005, 0.5773503), rel=1e-5)


@given(st.floats(0, 1e4), st.floats(-1, 1), st.floats(0, 1e4), st.floats(-1e4, 1e4))
def test_dual_is_finite_and_not_negative(q, cosine, s, c):
    got = solve(q, cosine * np.sqrt(q * s), s, c, 0.01)
    assert np.isfinite(float(got.lam)) and np.isfinite(float(got.nu))
    assert float(got.lam) >= 0 and float(got.nu) >= 0


def test_dual_when_less_loss_is_less_cost():
    # u = w = (1, 0), δ = 1/2, c = -1/2: downhill is away from the line, so nothing constrains:
    # λ = √(q / 2δ) = 1 and ν = 0.
    got = solve(1.0, 1.0, 1.0, -0.5, 0.5)
    assert (float(got.lam), float(got.nu)) == pytest.approx((1.0, 0.0), abs=1e-6)


@pytest.mark.parametrize("c", [-0.5, 0.5])
def test_dual_when_less_loss_is_more_cost(c):
    # u = -w = (-1, 0), δ = 1/2: downhill is straight to the line, x = -c, and there it stops. Any
    # small λ > 0 says so, with ν = 1 + λ c; λ = 0 does not.
    got = solve(1.0, -1.0, 1.0, c, 0.5)
    assert float(got.lam) > 1e-6
    x = (1.0 - np.asarray(got.nu, float)) / np.asarray(got.lam, float)
    assert x == pytest.approx(-c, abs=0.01)


# --- the whole step, on samples ---------------------------------------------------------------

STEP = Constrained(target_kl=0.002, iterations=30)
ALIGNED, ACROSS, OPPOSED = 0.7, 1.65, 2.4  # angle between what pays and what costs


def cost_change(new, state, samples):
    before, after = (surrogate64(t.theta, samples, samples.cost_advantage) for t in (state, new))
    return after - before


def gain(new, state, samples):
    before, after = (surrogate64(t.theta, samples, samples.reward_advantage) for t in (state, new))
    return after - before


def whiten(state, samples, damping=0.1):
    """Return u and w (for the loss, whose gradient is that of the reward with a minus), and H^½."""
    theta = np.asarray(state.theta, float)
    root = np.linalg.cholesky(fisher64(theta, samples.x) + damping * np.eye(len(theta)))
    g, b = (
        gradient64(lambda t, a=a: surrogate64(t, samples, a), theta)
        for a in (samples.reward_advantage, samples.cost_advantage)
    )
    return -np.linalg.solve(root, g), np.linalg.solve(root, b), root.T


def full_step(new, metrics, state):
    """Undo the line search's shortening."""
    assert int(metrics["trial"]) > 0, "the line search rejected every trial"
    step = np.asarray(new.theta, float) - np.asarray(state.theta, float)
    return step / 0.8 ** (int(metrics["trial"]) - 1)


@pytest.mark.parametrize("angle", [ALIGNED, ACROSS, OPPOSED])
@pytest.mark.parametrize("where", [-0.5, 0.5])
def test_step_is_the_best_that_the_linearised_cost_allows(angle, where):
    state, samples = make_case(0, angle=angle)
    u, w, root = whiten(state, samples)
    c = where * np.sqrt(2 * STEP.target_kl) * np.linalg.norm(w)
    new, metrics = take(STEP, state, samples, excess=c)
    assert int(metrics["case"]) == (2 if where < 0 else 1)
    x = root @ full_step(new, metrics, state)
    radius = np.sqrt(2 * STEP.target_kl)
    assert c + w @ x < 0.02 * radius * np.linalg.norm(w)
    best = best_in_the_plane(u, w, c, STEP.target_kl)
    assert np.linalg.norm(x - best) < 0.02 * radius
    # With the sign of the reward turned round it is another point.
    assert np.linalg.norm(x - best_in_the_plane(-u, w, c, STEP.target_kl)) > 0.2 * radius


@pytest.mark.parametrize("where", [-0.5, 0.5])
def test_step_when_what_pays_is_what_costs(where):
    """One direction for both: to the line and no further, from either side."""
    state, samples = make_case(0)
    samples = samples._replace(cost_advantage=samples.reward_advantage)
    _, w, root = whiten(state, samples)
    c = where * np.sqrt(2 * STEP.target_kl) * np.linalg.norm(w)
    new, metrics = take(STEP, state, samples, excess=c)
    x = root @ full_step(new, metrics, state)
    assert np.linalg.norm(x + c * w / (w @ w)) < 0.03 * np.sqrt(2 * STEP.target_kl)


def test_step_when_what_pays_saves():
    """Reward and cost agree where to go: the constraint does not matter."""
    state, samples = make_case(0)
    samples = samples._replace(cost_advantage=-samples.reward_advantage)
    _, w, _ = whiten(state, samples)
    c = -0.5 * np.sqrt(2 * STEP.target_kl) * np.linalg.norm(w)
    new, metrics = take(STEP, state, samples, excess=c)
    assert int(metrics["case"]) == 2
    trpo, _ = take(Natural(STEP.target_kl, STEP.iterations, STEP.damping, True), state, samples)
    np.testing.assert_allclose(new.theta, trpo.theta, atol=1e-5)
    assert np.abs(new.theta - state.theta).max() > 1e-3


def test_a_step_from_outside_moves_back_inside():
    """What pays costs, and the cost is a little too high: at least the cost must fall."""
    state, samples = make_case(0, angle=ALIGNED)
    _, w, _ = whiten(state, samples)
    c = 0.5 * np.sqrt(2 * STEP.target_kl) * np.linalg.norm(w)
    new, metrics = take(STEP, state, samples, excess=c)
    assert int(metrics["case"]) == 1
    assert cost_change(new, state, samples) < -0.5 * c


@pytest.mark.parametrize("angle", [ALIGNED, ACROSS, OPPOSED])
def test_recovery_only_lowers_the_cost(angle):
    state, samples = make_case(1, angle=angle)
    new, metrics = take(STEP, state, samples, excess=5.0)
    assert int(metrics["case"]) == 0
    # Steepest descent of the cost: -√(2δ) w / |w|, so that the cost falls by √(2δ) |w|.
    _, w, root = whiten(state, samples)
    x = root @ full_step(new, metrics, state)
    expected = -np.sqrt(2 * STEP.target_kl) * w / np.linalg.norm(w)
    assert np.linalg.norm(x - expected) < 0.02 * np.linalg.norm(expected)
    fraction = 0.8 ** (int(metrics["trial"]) - 1)
    fall = fraction * np.sqrt(2 * STEP.target_kl) * np.linalg.norm(w)
    assert cost_change(new, state, samples) == pytest.approx(-fall, rel=0.1)


@pytest.mark.parametrize("angle", [ALIGNED, ACROSS, OPPOSED])
def test_far_inside_it_is_trpo(angle):
    state, samples = make_case(2, angle=angle)
    new, metrics = take(STEP, state, samples, excess=-50.0)
    assert int(metrics["case"]) == 3
    trpo, _ = take(Natural(STEP.target_kl, STEP.iterations, STEP.damping, True), state, samples)
    np.testing.assert_allclose(new.theta, trpo.theta, atol=1e-6)
    assert np.abs(new.theta - state.theta).max() > 1e-3


def test_without_cost_it_is_trpo():
    state, samples = make_case(2)
    samples = samples._replace(cost_advantage=0 * samples.cost_advantage)
    new, metrics = take(STEP, state, samples, excess=-1.0)
    assert int(metrics["case"]) == 4
    trpo, _ = take(Natural(STEP.target_kl, STEP.iterations, STEP.damping, True), state, samples)
    np.testing.assert_allclose(new.theta, trpo.theta, atol=1e-6)
    # Too costly without a way to change it: stay, and stay finite.
    new, metrics = take(STEP, state, samples, excess=1.0)
    assert int(metrics["case"]) == 0
    np.testing.assert_array_equal(new.theta, state.theta)


def test_line_search_keeps_its_promises():
    far, dear, shortened = 0.0, 0.0, 0
    for angle in (ALIGNED, ACROSS, OPPOSED):
        for seed, excess in itertools.product(range(3), (-0.2, -0.02, 0.02, 1.0)):
            for target in (0.002, 0.2):
                state, samples = make_case(seed, angle=angle)
                step = replace(STEP, target_kl=target)
                new, metrics = take(step, state, samples, excess=excess)
                distance = distance64(state.theta, new.theta, samples.x) / 2
                assert distance <= target * (1 + 1e-4) + 1e-6
                assert float(metrics["kl"]) == pytest.approx(distance, rel=0.01, abs=1e-6)
                paid = cost_change(new, state, samples)
                assert paid <= max(-excess, 0.0) + 1e-6
                if excess < 0:
                    assert gain(new, state, samples) >= -1e-6
                    dear = max(dear, paid / -excess)
                far = max(far, distance / target)
                shortened += int(metrics["trial"]) > 1
    # Some steps come near each bound, so they are not kept by standing still.
    assert far > 0.8 and dear > 0.8 and shortened > 3


def test_step_stays_when_numbers_fail():
    state, samples = make_case(0)
    bad = samples.reward_advantage.at[0].set(np.nan)
    for excess in (-1.0, 1.0):
        new, metrics = take(STEP, state, samples, bad, excess=excess)
        if excess < 0:
            np.testing.assert_array_equal(new.theta, state.theta)
            assert int(metrics["trial"]) == 0
        assert np.isfinite(np.asarray(new.theta)).all()
