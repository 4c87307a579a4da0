"""Advantages and targets by generalised advantage estimation (GAE)."""

import jax
import jax.numpy as jnp


def gae(
    reward: jax.Array, value: jax.Array, last: jax.Array, gamma: float, lam: float
) -> tuple[jax.Array, jax.Array]:
    """Return advantages and value targets of episodes that ended by truncation.

    δ_t = r_t + γ V_{t+1} − V_t,  A_t = δ_t + γ λ A_{t+1},  target_t = A_t + V_t. An episode that is
    cut off goes on in theory, so its last step bootstraps with the value of the state after it.

    Args:
        reward: shape (steps, robots).
        value: V of the states the actions were taken in, shape (steps, robots).
        last: V of the states after the last step, shape (robots,).
        gamma: discount γ.
        lam: λ of GAE.
    """
    after = jnp.concatenate([value[1:], last[None]])
    delta = reward + gamma * after - value

    def back(later: jax.Array, now: jax.Array) -> tuple[jax.Array, jax.Array]:
        advantage = now + gamma * lam * later
        return advantage, advantage

    _, advantage = jax.lax.scan(back, jnp.zeros_like(last), delta, reverse=True)
    return advantage, advantage + value


def standardised(advantage: jax.Array) -> jax.Array:
    """Return advantages with zero mean and unit spread."""
    return (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)


def centred(advantage: jax.Array) -> jax.Array:
    """Return advantages with zero mean: a cost's scale is what the constraint is about."""
    return advantage - advantage.mean()
