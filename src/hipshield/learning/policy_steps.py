"""Policy steps: ways to improve a policy on one epoch's samples.

Each is a frozen record of settings and a function (settings, state, problem) → (state, metrics);
CPO's and CUP's have files of their own. All see the same surrogate,
E[π'(a|s) / π(a|s) · A], whatever constraint or regulariser made the advantage A.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hipshield.learning.minibatches import descend, one_pass
from hipshield.learning.networks import Policy, gradient_of, kl
from hipshield.learning.second_order import conjugate_gradient, fisher_product, line_search
from hipshield.learning.state import Samples, TrainState

Metrics = dict[str, jax.Array]


@dataclass(frozen=True)
class Clipped:
    """PPO: Adam on the clipped surrogate, until the passes are done or the KL is too large.

    Attributes:
        passes, batch, rate: of the minibatch descent.
        clip: bound on the probability ratio.
        target_kl: KL (summed over action dimensions) after a pass beyond which it stops.
        decay: let the rate fall linearly to zero over the run.
    """

    passes: int = 40
    batch: int = 64
    rate: float = 3e-4
    clip: float = 0.2
    target_kl: float = 0.02
    decay: bool = True


@dataclass(frozen=True)
class Natural:
    """A natural gradient step of a given KL; with `search`, TRPO's line search as well.

    Attributes:
        target_kl: KL of the step (averaged over action dimensions, see `fisher_product`).
        iterations, damping: of the conjugate gradient.
        search: shorten the step until the surrogate improves within the KL.
    """

    target_kl: float = 0.01
    iterations: int = 15
    damping: float = 0.1
    search: bool = False


class Problem(NamedTuple):
    """What a policy step works on.

    Attributes:
        policy: the shape of π.
        samples: the data.
        advantage: to increase, shape (n,): a constraint's and a regulariser's terms are in it.
        excess: mean episode cost − cost limit, for steps that know the constraint themselves.
        multiplier: λ, likewise.
        key: for shuffles.
        share: of the run that is still to come, 1 to 0; scales rates that decay.
    """

    policy: Policy
    samples: Samples
    advantage: jax.Array
    excess: Any
    multiplier: Any
    key: jax.Array
    share: Any


class Rows(NamedTuple):
    """Rows of a batch, as far as a minibatch of a policy's descent reads them.

    Attributes:
        x, action, log_prob: as in `Samples`.
        advantage: what the descent is about.
    """

    x: Any
    action: Any
    log_prob: Any
    advantage: Any


def ratio(policy: Policy, theta: jax.Array, samples: Samples | Rows) -> jax.Array:
    """Return π_θ(a|s) / π(a|s) of every sample, shape (n,)."""
    return jnp.exp(policy.apply(theta, samples.x).log_prob(samples.action) - samples.log_prob)


def surrogate(problem: Problem, theta: jax.Array, advantage: jax.Array) -> jax.Array:
    """Return E[ratio · A]."""
    return (ratio(problem.policy, theta, problem.samples) * advantage).mean()


def all_rows(samples: Samples, advantage: jax.Array) -> Rows:
    """Return a whole batch's rows, with the advantage to descend on."""
    return Rows(samples.x, samples.action, samples.log_prob, advantage)


def clipped_loss(clip: float, policy: Policy) -> Callable[[jax.Array, Rows], jax.Array]:
    """Return PPO's loss as a function of θ and of a minibatch."""

    def loss(theta: jax.Array, rows: Rows) -> jax.Array:
        r = ratio(policy, theta, rows)
        bounded = jnp.clip(r, 1 - clip, 1 + clip)
        return -jnp.minimum(r * rows.advantage, bounded * rows.advantage).mean()

    return loss


def clipped_step(step: Clipped, state: TrainState, problem: Problem) -> tuple[TrainState, Metrics]:
    """Run PPO's passes."""
    gradient = gradient_of(problem.policy, clipped_loss(step.clip, problem.policy))
    data = all_rows(problem.samples, problem.advantage)
    state, passes, moved = run_passes(step, state, problem, data, gradient)
    return state, {"kl": moved, "passes": passes}


def run_passes(
    step: Clipped,
    state: TrainState,
    problem: Problem,
    data: Any,
    gradient: Callable[[jax.Array, Any], jax.Array],
) -> tuple[TrainState, jax.Array, jax.Array]:
    """Repeat passes of minibatches until they are done or KL(old ‖ new) is beyond its target.

    Args:
        step: passes, their rate and target.
        state: whose policy to move.
        problem: the batch, and the key of its shuffles.
        data: what the gradient takes, rows first.
        gradient: (θ, a minibatch of the data) ↦ direction to descend.

    Returns:
        The new state, the number of passes, and the KL they moved.
    """
    x = problem.samples.x
    old = problem.policy.apply(state.theta, x)
    rate = step.rate * (problem.share if step.decay else 1.0)

    def improve(carry: Any, part: Any) -> Any:
        theta, opt = carry
        return descend(theta, opt, gradient(theta, part), rate)

    def goes_on(carry: Any) -> jax.Array:
        _, done, moved = carry
        return (done < step.passes) & (moved <= step.target_kl)

    def sweep(carry: Any) -> Any:
        pair, done, _ = carry
        key = jax.random.fold_in(problem.key, done)
        pair = one_pass(pair, key, data, step.batch, improve)
        return pair, done + 1, kl(old, problem.policy.apply(pair[0], x)).sum(-1).mean()

    start = ((state.theta, state.theta_opt), jnp.zeros((), jnp.int32), jnp.zeros(()))
    (theta, opt), done, moved = jax.lax.while_loop(goes_on, sweep, start)
    return state._replace(theta=theta, theta_opt=opt), done, moved


def natural_step(step: Natural, state: TrainState, problem: Problem) -> tuple[TrainState, Metrics]:
    """Step along F⁻¹ g, as far as the target KL reaches."""
    theta = state.theta

    def gain(t: jax.Array) -> jax.Array:
        return surrogate(problem, t, problem.advantage)

    value, gradient = jax.value_and_grad(gain)(theta)
    product = fisher_product(problem.policy, theta, problem.samples.x, step.damping)
    x = conjugate_gradient(product, gradient, step.iterations)
    curvature = x @ product(x)
    move = x * jnp.sqrt(2 * step.target_kl / (curvature + 1e-8))
    distance = make_distance(problem, theta)

    def better(t: jax.Array) -> jax.Array:
        return (gain(t) >= value) & (distance(t) <= step.target_kl)

    def finite(t: jax.Array) -> jax.Array:
        return jnp.isfinite(t).all()

    # One trial that accepts whatever is finite is the plain natural gradient.
    accepted = (
        line_search(theta, move, better)
        if step.search
        else line_search(theta, move, finite, trials=1)
    )
    metrics = {
        "kl": distance(accepted.theta),
        "curvature": curvature,
        "gradient_norm": jnp.sqrt(gradient @ gradient),
        "trial": accepted.trial,
    }
    return state._replace(theta=accepted.theta), metrics


def make_distance(problem: Problem, theta: jax.Array) -> Callable[[jax.Array], jax.Array]:
    """Return θ' ↦ KL(π_θ ‖ π_θ'), averaged over states and action dimensions."""
    x = problem.samples.x
    old = problem.policy.apply(theta, x)
    return lambda t: kl(old, problem.policy.apply(t, x)).mean()
