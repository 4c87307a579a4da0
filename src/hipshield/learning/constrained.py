"""CPO's policy step: the best step inside the trust region that satisfies the linearised cost.

With g the gradient of the *loss* (minus the reward surrogate), b that of the cost surrogate, H
the Fisher matrix, c the excess of the mean episode cost over its limit, and δ the KL:

    q = gᵀH⁻¹g,  r = gᵀH⁻¹b,  s = bᵀH⁻¹b,   A = q − r²/s,   B = 2δ − c²/s

Cases: 4 the cost does not change and is allowed; 3 the whole region is safe; 2 part of it is, and
we are; 1 part of it is, and we are not (recovery with reward); 0 none of it is (recovery: only
decrease the cost). Achiam et al. (2017), Section 6 and Appendix 10.2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hipshield.learning.policy_steps import Metrics, Problem, make_distance, surrogate
from hipshield.learning.second_order import conjugate_gradient, fisher_product, line_search
from hipshield.learning.state import TrainState

_TINY = 1e-8


@dataclass(frozen=True)
class Constrained:
    """Settings of CPO's step, as for `Natural`."""

    target_kl: float = 0.01
    iterations: int = 15
    damping: float = 0.1


class Dual(NamedTuple):
    """The solution of CPO's dual: multipliers λ* and ν*, and which case it was."""

    lam: jax.Array
    nu: jax.Array
    case: jax.Array


def find_case(s: jax.Array, c: jax.Array, kl: float) -> jax.Array:
    """Tell which of the five cases applies."""
    overlap = 2 * kl - c**2 / (s + _TINY)
    inside = jnp.where(overlap < 0, 3, 2)
    outside = jnp.where(overlap >= 0, 1, 0)
    case = jnp.where(c < 0, inside, outside)
    return jnp.where((s <= 1e-6) & (c < 0), 4, case)


def solve_dual(q: jax.Array, r: jax.Array, s: jax.Array, c: jax.Array, kl: float) -> Dual:
    """Maximise CPO's dual over λ ≥ 0 in closed form.

    The dual is f_a(λ) = −½(A/λ + Bλ) − rc/s where λc ≥ r, and f_b(λ) = −½(q/λ + 2δλ) elsewhere.
    Each piece has one maximum, which is clipped to its interval; an empty interval has none.
    """
    case = find_case(s, c, kl)
    # Where cost and reward pull along one line, A is 0 up to rounding, and λ would be, too.
    a = jnp.maximum(q - r**2 / (s + _TINY), 1e-6 * q + _TINY)
    b = 2 * kl - c**2 / (s + _TINY)
    best_a = jnp.sqrt(a / jnp.maximum(b, _TINY))
    best_b = jnp.sqrt(q / (2 * kl))
    border = r / jnp.where(jnp.abs(c) < _TINY, jnp.where(c < 0, -_TINY, _TINY), c)
    # λ c ≥ r holds for λ ≤ r/c while the excess c is below zero, and for λ ≥ r/c above.
    low_a, high_a = jnp.where(c < 0, 0.0, border), jnp.where(c < 0, border, jnp.inf)
    low_b, high_b = jnp.where(c < 0, border, 0.0), jnp.where(c < 0, jnp.inf, border)
    lam_a, f_a = _best_of_piece(a, b, best_a, low_a, high_a)
    lam_b, f_b = _best_of_piece(q, 2 * kl, best_b, low_b, high_b)
    lam = jnp.where(f_a - r * c / (s + _TINY) >= f_b, lam_a, lam_b)
    nu = jnp.maximum(lam * c - r, 0.0) / (s + _TINY)
    free = case >= 3
    return Dual(jnp.where(free, best_b, lam), jnp.where(free, 0.0, nu), case)


def _best_of_piece(
    over: jax.Array, slope: jax.Array | float, best: jax.Array, low: jax.Array, high: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Maximise −½(over/λ + slope·λ) between two bounds; the value is −∞ when they cross."""
    low = jnp.maximum(low, 0.0)
    lam = jnp.clip(best, low, high)
    value = -0.5 * (over / (lam + _TINY) + slope * lam)
    return lam, jnp.where(high > low, value, -jnp.inf)


def constrained_step(
    step: Constrained, state: TrainState, problem: Problem
) -> tuple[TrainState, Metrics]:
    """Take CPO's step, shortened until it keeps its promises."""
    theta, samples, c = state.theta, problem.samples, problem.excess

    def gain(t: jax.Array) -> jax.Array:
        return surrogate(problem, t, problem.advantage)

    def price(t: jax.Array) -> jax.Array:
        return surrogate(problem, t, samples.cost_advantage)

    gain_before, g = jax.value_and_grad(gain)(theta)
    price_before, b = jax.value_and_grad(price)(theta)
    product = fisher_product(problem.policy, theta, samples.x, step.damping)
    g_up = conjugate_gradient(product, g, step.iterations)
    b_up = conjugate_gradient(product, b, step.iterations)
    # The dual is written for a loss, and g here is of a gain: hence the sign of r.
    q, r, s = g_up @ product(g_up), -(g @ b_up), b_up @ product(b_up)
    dual = solve_dual(q, r, s, c, step.target_kl)
    move = jnp.where(
        dual.case == 0,
        -jnp.sqrt(2 * step.target_kl / (s + _TINY)) * b_up,
        (g_up - dual.nu * b_up) / (dual.lam + _TINY),
    )
    distance = make_distance(problem, theta)

    def good(t: jax.Array) -> jax.Array:
        gained = (gain(t) >= gain_before) | (dual.case <= 1)  # recovery may cost reward
        paid = price(t) - price_before <= jnp.maximum(-c, 0.0)
        return gained & paid & (distance(t) <= step.target_kl)

    accepted = line_search(theta, move, good)
    metrics = {
        "kl": distance(accepted.theta),
        "case": dual.case,
        "trial": accepted.trial,
        "dual_lambda": dual.lam,
        "dual_nu": dual.nu,
    }
    return state._replace(theta=accepted.theta), metrics
