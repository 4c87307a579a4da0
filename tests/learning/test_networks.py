from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from synthetic import mlp64

from hipshield.learning.networks import (
    Critic,
    Gaussian,
    Mlp,
    Policy,
    gradient_of,
    make_networks,
)

SIZES = [(3, 2), (3, 8, 2), (1, 5, 4, 3)]


@pytest.mark.parametrize("sizes", SIZES)
def test_apply_agrees_with_a_plain_loop(sizes):
    net = Mlp(sizes)
    theta = 2 * net.init(jax.random.key(1))
    x = np.random.default_rng(0).normal(size=(7, sizes[0])).astype(np.float32)
    apply = jax.jit(net.apply)
    got, expected = apply(theta, x), mlp64(sizes, theta, x)
    assert got.shape == (7, sizes[-1])
    np.testing.assert_allclose(got, expected, atol=1e-5)
    # Every single parameter matters at one of the inputs, so none is read in a wrong place.
    for i in range(net.count):
        changed = np.asarray(theta).copy()
        changed[i] += 0.1
        got = np.asarray(apply(changed, x))
        assert np.abs(got - expected).max() > 1e-4
        np.testing.assert_allclose(got, mlp64(sizes, changed, x), atol=1e-5)


def test_two_neurons_by_hand():
    # Layer 1 from one input to two: weights 1 and -1, biases 0 and 0.5; layer 2: 2 and 3, bias 4.
    # At x = 0.5: 2 tanh(0.5) + 3 tanh(-0.5 + 0.5) + 4 = 2 * 0.4621172 + 0 + 4 = 4.9242343.
    theta = jnp.array([1.0, -1.0, 0.0, 0.5, 2.0, 3.0, 4.0])
    got = Mlp((1, 2, 1)).apply(theta, jnp.array([0.5]))
    assert got.tolist() == pytest.approx([4.9242343], abs=1e-6)


def test_the_output_is_not_squashed():
    theta = jnp.array([100.0, 1.0])
    assert Mlp((1, 1)).apply(theta, jnp.array([2.0])).tolist() == [201.0]


def test_count_by_hand():
    assert Mlp((3, 2)).count == 8  # 3 * 2 weights and 2 biases
    assert Mlp((3, 8, 2)).count == 50  # 24 + 8, then 16 + 2
    assert Mlp((1, 5, 4, 3)).count == 49  # 5 + 5, then 20 + 4, then 12 + 3


@pytest.mark.parametrize("sizes", [*SIZES, (100, 50, 1)])
def test_init_fills_its_bounds_layer_by_layer(sizes):
    net = Mlp(sizes)
    theta = np.asarray(net.init(jax.random.key(3)))
    assert theta.shape == (net.count,)
    start = 0
    for inputs, outputs in pairwise(sizes):
        layer = theta[start : start + (inputs + 1) * outputs]
        start += len(layer)
        bound = 1 / np.sqrt(inputs)
        assert np.abs(layer).max() <= bound
        # n uniform draws all fall short of 0.5 with probability 0.5^n; of many, some come near.
        assert np.abs(layer).max() > (0.95 if len(layer) > 100 else 0.5) * bound
        assert layer.min() < 0 < layer.max()
    assert start == len(theta)


def test_init_depends_on_the_key_and_repeats_nothing():
    net = Mlp((4, 4, 4))
    first, again, other = (net.init(jax.random.key(k)) for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not (first == other).any()
    assert len(set(np.asarray(first).tolist())) == net.count  # the two layers' draws differ


def test_matrices_go_into_a_flat_vector_and_come_back():
    draw = np.random.default_rng(0)
    w1, b1, w2, b2 = (draw.normal(size=s).astype(np.float32) for s in ((3, 8), 8, (8, 2), 2))
    theta = np.concatenate([w1.ravel(), b1, w2.ravel(), b2])
    net = Mlp((3, 8, 2))
    x = draw.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(net.apply(theta, x), np.tanh(x @ w1 + b1) @ w2 + b2, atol=1e-5)
    # A network without hidden layer is its matrix: inputs 0 and unit vectors read it back.
    layer = Mlp((8, 2))
    flat = np.concatenate([w2.ravel(), b2])
    bias = layer.apply(flat, jnp.zeros(8))
    weight = layer.apply(flat, jnp.eye(8)) - bias
    np.testing.assert_allclose(jnp.concatenate([weight.ravel(), bias]), flat, atol=1e-6)


def test_leading_axes_are_a_batch():
    net = Mlp((3, 8, 2))
    theta = net.init(jax.random.key(0))
    x = np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)
    got = net.apply(theta, x)
    assert got.shape == (4, 5, 2)
    flat = net.apply(theta, x.reshape(20, 3)).reshape(4, 5, 2)
    np.testing.assert_allclose(got, flat, atol=1e-6)


def test_a_policy_is_its_network_and_one_spread_for_each_action():
    policy = Policy(Mlp((3, 8, 2)))
    theta = policy.init(jax.random.key(0))
    assert theta.shape == (52,) and policy.actions == 2
    assert theta[-2:].tolist() == [0.0, 0.0]
    theta = theta.at[-2:].set(jnp.array([-1.0, 0.5]))
    x = jnp.ones((4, 3))
    chosen = policy.apply(theta, x)
    assert isinstance(chosen, Gaussian)
    assert chosen.log_std.tolist() == [-1.0, 0.5]
    np.testing.assert_allclose(chosen.mean, mlp64((3, 8, 2), theta[:50], x), atol=1e-5)


def test_a_critic_is_one_number_for_each_state():
    critic = Critic(Mlp((3, 8, 1)))
    theta = critic.init(jax.random.key(0))
    x = np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)
    got = critic.apply(theta, x)
    assert got.shape == (4, 5)
    expected = mlp64((3, 8, 1), theta, x.reshape(20, 3)).reshape(4, 5)
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_make_networks():
    nets = make_networks(inputs=5, actions=2, hidden=(8, 4))
    assert nets.policy.mean.sizes == (5, 8, 4, 2)
    assert nets.critic.net.sizes == (5, 8, 4, 1)
    assert nets.cost_q.net.sizes == (7, 8, 4, 1)  # state and action together
    assert make_networks(5, 2).policy.mean.sizes == (5, 64, 64, 2)


def test_gradients_of_the_parts_are_the_gradient():
    policy = make_networks(3, 2, (4,)).policy
    theta = policy.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (5, 3))

    def loss(theta, scale):
        chosen = policy.apply(theta, x)
        return scale * (chosen.mean**2).sum() + (jnp.exp(chosen.log_std) * chosen.mean).sum()

    np.testing.assert_array_equal(gradient_of(policy, loss)(theta, 2.0), jax.grad(loss)(theta, 2.0))
    assert not np.allclose(gradient_of(policy, loss)(theta, 1.0), jax.grad(loss)(theta, 2.0))
