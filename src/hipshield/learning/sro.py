"""Safety-regularised optimisation (SRO): the paper's Q_safe, a bonus for locally cheap actions.

    Q_safe(s, a) = −clip( mean_j w_j Q_C(s, a_j) / (V_C(s) + ε), 0, 1),   a_j = a + σ ξ_j

with w_j = π(a_j | s) (`density`, the paper's pseudocode) or w_j = 1 (`average`, its Appendix B).
A_aug = A_R + α Q_safe, before a constraint's own term; no gradient flows through Q_safe. The
critics are those that the last epoch left, as are the values behind the advantages.

Two slips of the pseudocode are corrected. Its line 20 loses the sign: Q_safe is positive there,
and would reward danger. And its V_C loss differentiates nothing, because V_C is behind a
stop-gradient, which belongs only into the target of Q_C.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.learning.networks import Networks
from hipshield.learning.state import COST, Samples, TrainState

ESTIMATORS = ("density", "average")


@dataclass(frozen=True)
class Sro:
    """Settings of SRO.

    Attributes:
        weight: α ≥ 0; at 0 nothing is computed, and a run is the same bits as without SRO.
        samples: number of local actions a_j.
        sigma: their spread σ.
        epsilon: ε in the denominator.
        estimator: 'density' or 'average'.
    """

    weight: float = 0.0
    samples: int = 10
    sigma: float = 0.1
    epsilon: float = 1e-3
    estimator: str = "density"

    def __post_init__(self) -> None:
        """Check the fields."""
        if not self.weight >= 0:
            raise HipshieldError(f"SRO's weight α must be zero or more, got {self.weight}.")
        if self.samples < 1 or not self.sigma > 0 or not self.epsilon > 0:
            raise HipshieldError("SRO needs samples ≥ 1, sigma > 0 and epsilon > 0.")
        if self.estimator not in ESTIMATORS:
            raise HipshieldError(
                f"Unknown SRO estimator '{self.estimator}'."
                + did_you_mean(self.estimator, ESTIMATORS)
            )


def safety_ratio(weights: jax.Array, q: jax.Array, v: jax.Array, epsilon: float) -> jax.Array:
    """Return Q_safe ∈ [−1, 0] from samples along the first axis.

    Args:
        weights: w_j, shape (samples, n).
        q: Q_C(s, a_j), shape (samples, n).
        v: V_C(s), shape (n,). A cost is never negative, so neither value is taken to be.
        epsilon: ε.
    """
    local = (weights * jnp.maximum(q, 0.0)).mean(0)
    ratio = jnp.nan_to_num(local / (jnp.maximum(v, 0.0) + epsilon), nan=1.0, posinf=1.0)
    return 0.0 - jnp.clip(ratio, 0.0, 1.0)


def q_safe(
    sro: Sro, nets: Networks, state: TrainState, samples: Samples, key: jax.Array
) -> jax.Array:
    """Return Q_safe of every sample, shape (n,); exactly 0 when nothing has cost anything."""
    policy = nets.policy.apply(state.theta, samples.x)

    def local(j: jax.Array) -> tuple[jax.Array, jax.Array]:
        noise = jax.random.normal(jax.random.fold_in(key, j), samples.action.shape)
        action = samples.action + sro.sigma * noise
        q = nets.cost_q.apply(state.cost_q, jnp.concatenate([samples.x, action], axis=1))
        if sro.estimator == "average":
            return jnp.ones_like(q), q
        return jnp.exp(policy.log_prob(action)), q

    weights, q = jax.lax.map(local, jnp.arange(sro.samples))
    v = nets.critic.apply(state.critics[COST], samples.x)
    bonus = safety_ratio(weights, q, v, sro.epsilon)
    # Proposition 1 is about true values. Those of fitted critics are nearly zero where nothing
    # costs, and before the first fit they are noise: dividing one by the other would be, too.
    known = (samples.episode_cost > 0) & (state.epoch > 0)
    return jax.lax.stop_gradient(jnp.where(known, bonus, 0.0))
