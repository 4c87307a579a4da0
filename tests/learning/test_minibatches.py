import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipshield.learning.minibatches import one_pass, shuffle


@settings(max_examples=25, deadline=None)
@given(rows=st.sampled_from([1, 2, 7, 64, 100, 20_000, 65_537, 100_000]), key=st.integers(0, 999))
def test_a_shuffle_visits_every_row_once(rows, key):
    order = np.asarray(jax.jit(shuffle, static_argnums=1)(jax.random.key(key), rows))
    np.testing.assert_array_equal(np.sort(order), np.arange(rows))


def test_shuffles_differ_and_leave_no_order():
    """The rank correlation of a random order with the rows' own is 0 ± 1/√n; 5 σ are allowed."""
    rows = 20_000
    orders = [np.asarray(shuffle(jax.random.key(k), rows)).astype(float) for k in range(8)]
    for i, order in enumerate(orders):
        others = [np.arange(rows), *orders[:i]]
        assert all(abs(np.corrcoef(order, o)[0, 1]) < 5 / np.sqrt(rows) for o in others)
        # Rows that stand together in the data do not meet in a minibatch more often than by chance.
        batch = np.empty(rows)
        batch[order.astype(int)] = np.arange(rows) // 64
        together = (batch[1:] == batch[:-1]).mean()
        chance = 64 / rows
        assert together < chance + 5 * np.sqrt(chance / rows)
    straight = np.arange(rows) // 64
    assert (straight[1:] == straight[:-1]).mean() > 0.9  # the check would notice


@pytest.mark.parametrize(("rows", "size", "used"), [(10, 3, 9), (4, 8, 4), (8, 4, 8)])
def test_a_pass_uses_every_full_minibatch_once(rows, size, used):
    def step(seen, batch):
        return seen.at[batch].add(1)

    seen = one_pass(jax.numpy.zeros(rows), jax.random.key(0), np.arange(rows), size, step)
    assert sorted(np.asarray(seen).tolist()) == [0.0] * (rows - used) + [1.0] * used
