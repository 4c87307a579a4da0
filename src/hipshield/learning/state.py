"""What a run is made of: its state, and the data that one epoch gives it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from hipshield.learning.networks import Networks
from hipshield.learning.normaliser import Normaliser
from hipshield.learning.normaliser import start as start_normaliser

REWARD, COST = 0, 1  # rows of the stacked critics

ADAM = optax.scale_by_adam()  # the learning rate is applied apart, because it may decay


class TrainState(NamedTuple):
    """Everything the next update depends on, as arrays.

    Attributes:
        theta: the policy's parameters, and its optimiser's state.
        critics: V_R and V_C stacked, shape (2, parameters), and their optimiser's state.
        cost_q: Q_C, which only SRO trains, and its optimiser's state.
        multiplier: the Lagrange multiplier λ ≥ 0, and its optimiser's state.
        normaliser: statistics of the observations.
        epoch: finished epochs.
    """

    theta: Any
    theta_opt: Any
    critics: Any
    critics_opt: Any
    cost_q: Any
    cost_q_opt: Any
    multiplier: Any
    multiplier_opt: Any
    normaliser: Normaliser
    epoch: Any


class Batch(NamedTuple):
    """One epoch's experience: whole episodes, rows by step, columns by robot.

    Attributes:
        obs: what the policy saw, not yet normalised, shape (steps, robots, size).
        last_obs: after the last step, shape (robots, size).
        action: what the policy proposed, shape (steps, robots, actions).
        reward, cost: shape (steps, robots). The reward is the one to learn from.
        executed: what was done, within the bounds; a shield may have decided otherwise than the
            policy proposed, shape (steps, robots, actions).
    """

    obs: Any
    last_obs: Any
    action: Any
    reward: Any
    cost: Any
    executed: Any


class Samples(NamedTuple):
    """A batch made ready for updates, steps and robots joined into n rows.

    Attributes:
        x: normalised observations, shape (n, size).
        action: shape (n, actions).
        log_prob: of the actions under the policy that took them, shape (n,).
        reward_advantage: A_R, standardised, shape (n,).
        cost_advantage: A_C, centred, shape (n,).
        targets: of V_R and V_C, shape (2, n).
        episode_cost: mean cost of an episode, shape ().
    """

    x: Any
    action: Any
    log_prob: Any
    reward_advantage: Any
    cost_advantage: Any
    targets: Any
    episode_cost: Any


def start_state(nets: Networks, seed: int, multiplier: float) -> TrainState:
    """Return the state before the first epoch."""
    policy, reward, cost, cost_q = jax.random.split(jax.random.key(seed), 4)
    theta = nets.policy.init(policy)
    critics = jnp.stack([nets.critic.init(reward), nets.critic.init(cost)])
    q = nets.cost_q.init(cost_q)
    lam = jnp.asarray(multiplier, jnp.float32)
    return TrainState(
        theta=theta,
        theta_opt=ADAM.init(theta),
        critics=critics,
        critics_opt=jax.vmap(ADAM.init)(critics),
        cost_q=q,
        cost_q_opt=ADAM.init(q),
        multiplier=lam,
        multiplier_opt=ADAM.init(lam),
        normaliser=start_normaliser(nets.policy.mean.sizes[0]),
        epoch=jnp.zeros((), jnp.int32),
    )
