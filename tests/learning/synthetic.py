"""Small made-up problems for the tests beside it, and float64 references in plain numpy."""

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from hipshield.learning.advantages import centred, standardised
from hipshield.learning.networks import make_networks
from hipshield.learning.policy_steps import Problem
from hipshield.learning.state import Samples, start_state
from hipshield.learning.update import STEPS

NETS = make_networks(inputs=2, actions=2, hidden=(4,))
POLICY = NETS.policy
ACTIONS = 2


@lru_cache
def make_case(seed, rows=96, angle=1.0):
    """Return a state and samples.

    Reward grows with the first action, cost with the action at `angle` radians from it: at 0 what
    pays also costs, at π what pays also saves.
    """
    draw = np.random.default_rng(seed)
    state = start_state(NETS, seed, multiplier=0.0)
    x = draw.normal(size=(rows, 2)).astype(np.float32)
    chosen = POLICY.apply(state.theta, x)
    action = chosen.sample(jax.random.key(seed))
    noise = draw.normal(size=(2, rows)).astype(np.float32)
    reward = action[:, 0] + 0.3 * noise[0]
    cost = np.cos(angle) * action[:, 0] + np.sin(angle) * action[:, 1] + 0.3 * noise[1]
    samples = Samples(
        x=jnp.asarray(x),
        action=action,
        log_prob=chosen.log_prob(action),
        reward_advantage=standardised(reward),
        cost_advantage=centred(cost),
        targets=jnp.zeros((2, rows)),
        episode_cost=jnp.ones(()),
    )
    return state, samples


# Settings that are numbers to a compiled step; the others shape it.
NUMBERS = ("target_kl", "rate", "clip", "passes", "damping", "iterations", "gamma", "lam")


@lru_cache
def compiled(frame):
    def run(numbers, state, samples, rest):
        problem = Problem(policy=POLICY, samples=samples, **rest)
        return STEPS[type(frame)](replace(frame, **numbers), state, problem)

    return jax.jit(run)


def take(step, state, samples, advantage=None, **rest):
    """Take a policy step, compiled once for all settings that differ in numbers only.

    The rest are fields of `Problem`: excess, multiplier, key (a number here) and share.
    """
    rest = {"excess": 0.0, "multiplier": 0.0, "share": 1.0} | rest
    key = jax.random.key(rest.pop("key", 0))
    rest["advantage"] = samples.reward_advantage if advantage is None else advantage
    rest = {name: np.asarray(value, np.float32) for name, value in rest.items()}
    numbers = {name: getattr(step, name) for name in NUMBERS if hasattr(step, name)}
    frame = replace(step, **dict.fromkeys(numbers, 0))
    return compiled(frame)(numbers, state, samples, rest | {"key": key})


def mlp64(sizes, theta, x):
    """Evaluate a network layer by layer, one number at a time, in float64."""
    theta = [float(t) for t in np.asarray(theta)]
    layers, start = [], 0
    for inputs, outputs in pairwise(sizes):
        layers.append((inputs, outputs, start))
        start += (inputs + 1) * outputs
    out = []
    for row in np.asarray(x, np.float64):
        values = list(row)
        for number, (inputs, outputs, first) in enumerate(layers):
            bias = first + inputs * outputs
            total = [
                sum(values[i] * theta[first + i * outputs + j] for i in range(inputs))
                + theta[bias + j]
                for j in range(outputs)
            ]
            last = number == len(layers) - 1
            values = total if last else [np.tanh(t) for t in total]
        out.append(values)
    return np.array(out)


def policy64(theta, x):
    """Return means and log σ in float64, for `POLICY`'s shape (one hidden layer)."""
    theta = np.asarray(theta, np.float64)
    inputs, hidden, outputs = POLICY.mean.sizes
    cuts = np.cumsum([inputs * hidden, hidden, hidden * outputs, outputs])
    w1, b1, w2, b2, log_std = np.split(theta, cuts)
    h = np.tanh(np.asarray(x, np.float64) @ w1.reshape(inputs, hidden) + b1)
    return h @ w2.reshape(hidden, outputs) + b2, log_std


def distance64(old, new, x):
    """Return KL(π_old ‖ π_new), summed over action dimensions, averaged over states."""
    (m0, l0), (m1, l1) = policy64(old, x), policy64(new, x)
    v0, v1 = np.exp(2 * l0), np.exp(2 * l1)
    return (l1 - l0 + (v0 + (m0 - m1) ** 2) / (2 * v1) - 0.5).sum(-1).mean()


def surrogate64(theta, samples, advantage):
    """Return E[π_θ(a|s) / π(a|s) · A]."""
    mean, log_std = policy64(theta, samples.x)
    z = (np.asarray(samples.action, np.float64) - mean) / np.exp(log_std)
    log_prob = (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(-1)
    ratio = np.exp(log_prob - np.asarray(samples.log_prob, np.float64))
    return (ratio * np.asarray(advantage, np.float64)).mean()


def gradient64(function, theta, h=1e-5):
    """Return a gradient by central differences."""
    theta = np.asarray(theta, np.float64)
    rows = np.eye(len(theta)) * h
    return np.array([(function(theta + e) - function(theta - e)) / (2 * h) for e in rows])


def fisher64(theta, x, h=1e-3):
    """Return the Hessian of the KL averaged over states and action dimensions, by differences."""
    theta = np.asarray(theta, np.float64)
    rows = np.eye(len(theta)) * h

    def d(step):
        return distance64(theta, theta + step, x) / ACTIONS

    hessian = np.zeros((len(theta), len(theta)))
    for i, a in enumerate(rows):
        for j, b in enumerate(rows[: i + 1]):
            change = d(a + b) - d(a - b) - d(b - a) + d(-a - b)
            hessian[i, j] = hessian[j, i] = change / (4 * h * h)
    return hessian
