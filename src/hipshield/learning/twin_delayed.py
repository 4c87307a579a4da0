"""TD3's updates on one minibatch, with a cost critic and USL's penalty in the policy's loss.

    y_R = r + γ min_i Q'_i(s', clip(π'(s') + clip(ε, ±b), ±1)),   y_C = c + γ_c Q'_C(s', π'(s'))
    policy: minimise E[−Q_1(s, π(s)) + κ max(Q_C(s, π(s)) − δ, 0)]

Primes mark slowly moving targets. Nothing here ends an episode but its truncation, so every
target bootstraps. κ = 0 is TD3 itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hipshield.learning.minibatches import descend
from hipshield.learning.networks import Critic, Squashed, gradient_of
from hipshield.learning.normaliser import Normaliser
from hipshield.learning.normaliser import start as start_normaliser
from hipshield.learning.state import ADAM

FIRST, SECOND, COST_Q = range(3)  # rows of the stacked critics: Q_1, Q_2 and Q_C


@dataclass(frozen=True)
class TwinDelayed:
    """Settings; the defaults are the published ones, but for `every` and `random_epochs`.

    Attributes:
        rate, batch: of Adam, for policy and critics.
        every: environment steps a minibatch.
        delay: minibatches of the critics to one of the policy and of the targets.
        tau: τ, share of the networks that their targets take in.
        smoothing, bound: spread σ of the noise on target actions, and its bound b.
        exploration: spread of the noise on a robot's actions.
        random_epochs: epochs of uniformly random actions.
        memory: transitions to learn from, the newest.
    """

    rate: float = 3e-4
    batch: int = 256
    every: int = 4
    delay: int = 2
    tau: float = 0.005
    smoothing: float = 0.2
    bound: float = 0.5
    exploration: float = 0.1
    random_epochs: int = 1
    memory: int = 1_000_000


@dataclass(frozen=True)
class TwinProblem:
    """What stays the same in all updates of a run.

    Attributes:
        step: settings.
        policy, critic: shapes of π and of all Q(s, a).
        gamma, cost_gamma: discounts.
        penalty: κ.
        delta: δ.
    """

    step: TwinDelayed
    policy: Squashed
    critic: Critic
    gamma: float = 0.99
    cost_gamma: float = 0.99
    penalty: float = 0.0
    delta: float = 0.0


class TwinState(NamedTuple):
    """Everything the next update depends on, besides the experience, as arrays.

    Attributes:
        theta: the policy's parameters, and its optimiser's state.
        critics: Q_1, Q_2 and Q_C stacked, shape (3, parameters), and their optimiser's state.
        theta_target, critics_target: π' and Q'.
        normaliser: statistics of the observations.
        epoch: finished epochs.
    """

    theta: Any
    theta_opt: Any
    critics: Any
    critics_opt: Any
    theta_target: Any
    critics_target: Any
    normaliser: Normaliser
    epoch: Any


class Transitions(NamedTuple):
    """A minibatch, n rows.

    Attributes:
        x, next_x: normalised observations, shape (n, size).
        action: as executed, shape (n, actions).
        reward, cost: shape (n,).
    """

    x: Any
    action: Any
    reward: Any
    cost: Any
    next_x: Any


def start_twin_state(problem: TwinProblem, seed: int) -> TwinState:
    """Return the state before the first epoch."""
    policy, *rest = jax.random.split(jax.random.key(seed), 4)
    theta = problem.policy.init(policy)
    critics = jnp.stack([problem.critic.init(key) for key in rest])
    return TwinState(
        theta=theta,
        theta_opt=ADAM.init(theta),
        critics=critics,
        critics_opt=jax.vmap(ADAM.init)(critics),
        theta_target=theta,
        critics_target=critics,
        normaliser=start_normaliser(problem.policy.net.sizes[0]),
        epoch=jnp.zeros((), jnp.int32),
    )


def value_of(critic: Critic, theta: Any, x: jax.Array, action: jax.Array) -> jax.Array:
    """Return Q(s, a), shape (n,)."""
    return critic.apply(theta, jnp.concatenate([x, action], axis=1))


def targets(
    problem: TwinProblem, state: TwinState, rows: Transitions, noise: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return y_R and y_C, shape (n,) each.

    Args:
        problem: settings.
        state: whose targets to ask.
        rows: the minibatch.
        noise: standard normal, shape (n, actions).
    """
    how, critics = problem.step, state.critics_target
    mean = problem.policy.apply(state.theta_target, rows.next_x)
    spread = jnp.clip(how.smoothing * noise, -how.bound, how.bound)
    smoothed = jnp.clip(mean + spread, -1.0, 1.0)
    twins = [value_of(problem.critic, critics[i], rows.next_x, smoothed) for i in (FIRST, SECOND)]
    later_cost = value_of(problem.critic, critics[COST_Q], rows.next_x, mean)
    reward = rows.reward + problem.gamma * jnp.minimum(*twins)
    return reward, rows.cost + problem.cost_gamma * later_cost


def fit_critics(
    problem: TwinProblem, state: TwinState, rows: Transitions, noise: jax.Array
) -> tuple[TwinState, dict[str, jax.Array]]:
    """Take one Adam step with every critic; return their losses before it, too."""
    critic, (reward, cost) = problem.critic, targets(problem, state, rows, noise)
    pairs = jnp.concatenate([rows.x, rows.action], axis=1)

    def loss(theta: Any, target: jax.Array) -> jax.Array:
        return ((critic.apply(theta, pairs) - target) ** 2).mean()

    gradient, wanted = gradient_of(critic, loss), (reward, reward, cost)
    losses = [loss(t, y) for t, y in zip(state.critics, wanted, strict=True)]
    gradients = [gradient(t, y) for t, y in zip(state.critics, wanted, strict=True)]
    critics, opt = jax.vmap(lambda t, o, g: descend(t, o, g, problem.step.rate))(
        state.critics, state.critics_opt, jnp.stack(gradients)
    )
    metrics = {
        "value_loss": (losses[FIRST] + losses[SECOND]) / 2,
        "cost_loss": losses[COST_Q],
        "q_reward": reward.mean(),
    }
    return state._replace(critics=critics, critics_opt=opt), metrics


def policy_loss(problem: TwinProblem) -> Callable[[Any, jax.Array, jax.Array], jax.Array]:
    """Return (θ, critics, x) ↦ the policy's loss."""

    def loss(theta: Any, critics: jax.Array, x: jax.Array) -> jax.Array:
        action = problem.policy.apply(theta, x)
        result = -value_of(problem.critic, critics[FIRST], x, action)
        if problem.penalty > 0:
            cost = value_of(problem.critic, critics[COST_Q], x, action)
            result = result + problem.penalty * jnp.maximum(cost - problem.delta, 0.0)
        return result.mean()

    return loss


def improve_twin(problem: TwinProblem, state: TwinState, x: jax.Array) -> TwinState:
    """Take one Adam step with the policy, and let all targets follow."""
    how = problem.step
    gradient = gradient_of(problem.policy, policy_loss(problem))
    theta, opt = descend(
        state.theta, state.theta_opt, gradient(state.theta, state.critics, x), how.rate
    )
    return state._replace(
        theta=theta,
        theta_opt=opt,
        theta_target=state.theta_target + how.tau * (theta - state.theta_target),
        critics_target=state.critics_target + how.tau * (state.critics - state.critics_target),
    )
