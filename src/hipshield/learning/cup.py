"""CUP's policy step: improve the reward with PPO, then project back towards low cost.

The projection descends on λ (1 − γλ_GAE)/(1 − γ) · E[ratio · A_C] + KL(π_θ ‖ π_½), where π_½ is the
policy that the first half reached (Yang et al. 2022).
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from hipshield.learning.networks import gradient_of, kl
from hipshield.learning.policy_steps import (
    Clipped,
    Metrics,
    Problem,
    Rows,
    all_rows,
    clipped_step,
    ratio,
    run_passes,
)
from hipshield.learning.state import TrainState


@dataclass(frozen=True)
class ImproveThenProject:
    """Settings of CUP: PPO's for both halves, and the discount and GAE λ of its cost weight."""

    improve: Clipped = Clipped(target_kl=0.01)  # noqa: RUF009  (frozen)
    gamma: float = 0.99
    lam: float = 0.95


def cup_step(
    step: ImproveThenProject, state: TrainState, problem: Problem
) -> tuple[TrainState, Metrics]:
    """Improve, then project."""
    improved, metrics = clipped_step(step.improve, state, problem)
    samples = problem.samples
    halfway = problem.policy.apply(improved.theta, samples.x)
    weight = problem.multiplier * (1 - step.gamma * step.lam) / (1 - step.gamma)

    def loss(theta: jax.Array, part: tuple[Rows, Any]) -> jax.Array:
        rows, mean = part
        now = problem.policy.apply(theta, rows.x)
        away = kl(now, halfway._replace(mean=mean)).sum(-1)
        cost = ratio(problem.policy, theta, rows) * rows.advantage
        return (weight * cost + away).mean()

    key = jax.random.fold_in(problem.key, 1 << 16)  # apart from the first half's passes
    data = (all_rows(samples, samples.cost_advantage), halfway.mean)
    state, passes, moved = run_passes(
        step.improve,
        improved,
        problem._replace(key=key),
        data,
        gradient_of(problem.policy, loss),
    )
    return state, metrics | {"projection_kl": moved, "projection_passes": jnp.asarray(passes)}
