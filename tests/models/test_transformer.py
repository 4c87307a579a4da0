"""The transformer: an encoder of sets, held to plain loops, and what it must learn."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slides import MOTION, SETTINGS, blind_guess, rows_of, slides

from hipshield.errors import HipshieldError
from hipshield.models import fit as fitting
from hipshield.models.attention import SetEncoder
from hipshield.models.fit import fit
from hipshield.models.transformer import Transformer

WINDOW = 20
ENCODER = SetEncoder(inputs=5, outputs=3, width=6, heads=2, layers=2)


@pytest.fixture(scope="module")
def fitted():
    predictor = Transformer(MOTION, latent=2, width=8, hidden=(24, 24), window=WINDOW)
    rows = rows_of(*slides(200, 60))
    fitting.trace_counts.clear()
    params = fit(predictor, rows, SETTINGS)
    assert fitting.trace_counts["transformer"] == 1
    return predictor, params, rows


@partial(jax.jit, static_argnums=0)
def know(predictor, params, rows):
    """The belief after some transitions (x, a, y) of one robot."""
    step = lambda belief, row: (predictor.learn(params, belief, *row), None)  # noqa: E731
    return jax.lax.scan(step, predictor.start(params, jnp.zeros(2)), rows)[0]


@partial(jax.jit, static_argnums=0)
def adapt(predictor, params, belief):
    return predictor.adapt(params, belief)


def transitions(rows, episode, part):
    return tuple(jnp.asarray(v)[episode, part] for v in rows[:3])


# The encoder


def encoder64(weights, tokens):
    """The encoder in double precision and by loops, of tokens that are all in the set."""
    weights = jax.tree.map(lambda v: np.asarray(v, float), weights)

    def linear(layer, row):
        return row @ layer.weight + layer.bias

    def norm(row):
        return (row - row.mean()) / np.sqrt(row.var() + 1e-5)

    rows = [weights.readout] + [linear(weights.embed, token) for token in np.asarray(tokens, float)]
    for block in weights.blocks:
        keys = [linear(block.key, norm(row)) for row in rows]
        values = [linear(block.value, norm(row)) for row in rows]
        after = []
        for row in rows:
            query, seen = linear(block.query, norm(row)), []
            for head in (slice(0, 3), slice(3, 6)):
                share = np.exp([query[head] @ key[head] / np.sqrt(3) for key in keys])
                share /= share.sum()
                seen.append(sum(s * value[head] for s, value in zip(share, values, strict=True)))
            row = row + linear(block.mix, np.concatenate(seen))
            after.append(row + linear(block.down, np.maximum(linear(block.up, norm(row)), 0)))
        rows = after
    return linear(weights.head, norm(rows[0]))


@pytest.fixture(scope="module")
def case():
    weights = jax.jit(ENCODER.init)(jax.random.key(1))
    tokens = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    return weights, tokens, jax.jit(ENCODER.apply)


@pytest.mark.parametrize("count", [0, 1, 4, 7])
def test_the_encoder_is_attention_by_plain_loops(case, count):
    weights, tokens, apply = case
    wanted = encoder64(weights, tokens[:count])
    np.testing.assert_allclose(apply(weights, tokens, np.arange(7) < count), wanted, atol=2e-6)


def test_the_encoder_reads_a_set_and_nothing_beside_it(case):
    weights, tokens, apply = case
    valid = np.array([1, 0, 1, 1, 0, 0, 1], bool)
    result = apply(weights, tokens, valid)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(7)
        np.testing.assert_allclose(apply(weights, tokens[order], valid[order]), result, atol=2e-6)
    other = np.where(valid[:, None], tokens, 1e6).astype(np.float32)
    np.testing.assert_array_equal(apply(weights, other, valid), result)
    changed = tokens.copy()
    changed[0, 0] += 1
    assert np.abs(apply(weights, changed, valid) - result).max() > 1e-3


# Fitting


def test_errors_fall_with_transitions_and_below_those_of_the_best_blind_guess(fitted):
    predictor, params, _ = fitted
    new = rows_of(*slides(200, 60, seed=1))

    @jax.jit
    @jax.vmap
    def misses(x, a, y):
        """The squared error of each transition's prediction, from those before it."""

        def go(belief, row):
            guess = predictor.predict(params, adapt(predictor, params, belief), *row[:2])
            return predictor.learn(params, belief, *row), ((guess - row[2]) ** 2).mean()

        return jax.lax.scan(go, predictor.start(params, jnp.zeros(2)), (x, a, y))[1]

    square = np.asarray(misses(*new[:3]))
    alone = np.asarray((blind_guess(new) - new.y) ** 2).mean(2)
    # Root mean squares against the blind guess's, of the same transitions.
    parts = (slice(0, 1), slice(1, 3), slice(5, 10), slice(15, 20), slice(30, 60))
    none, few, some, window, later = (
        np.sqrt(square[:, part].mean() / alone[:, part].mean()) for part in parts
    )
    assert none < 1.3  # the prior is no worse than the mean robot
    assert few < 0.9 * none
    assert some < 0.8 * few
    assert window < some
    assert window < 0.4
    assert later < 1.2 * window  # a full window stays as good


def test_centring_changes_no_prediction_and_standardises_b(fitted):
    predictor, params, rows = fitted
    part = tuple(v[:-20, -WINDOW:] for v in rows[:3])  # fitting kept the last tenth
    each = jax.jit(jax.vmap(lambda *row: adapt(predictor, params, know(predictor, params, row))))
    b = each(*part)
    np.testing.assert_allclose(b.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(b.std(0), 1, atol=1e-3)
    plainly = params._replace(centre=jnp.zeros(2), spread=jnp.ones(2))
    result = params.centre + params.spread * jnp.asarray([0.4, -1.3])
    predict = jax.jit(predictor.predict)
    here = predict(params, jnp.asarray([0.4, -1.3]), rows.x[0], rows.action[0])
    there = predict(plainly, result, rows.x[0], rows.action[0])
    np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-6)


def test_the_loss_is_of_the_transitions_beyond_the_window_alone(fitted):
    predictor, params, rows = fitted
    some = jax.tree.map(lambda v: jnp.asarray(v[:4, : WINDOW + 3]), rows)

    @jax.jit
    def loss(y):
        return predictor.loss(params, some._replace(y=y), jax.random.key(0))

    # Whatever was read, a change of an unread target moves the loss by exactly its own square.
    far = some.y.at[2, -1, 0].add(100 * params.scale.y_scale[0])
    count = 4 * 3 * MOTION.outputs
    assert abs(loss(far) - loss(some.y) - 1e4 / count) < 0.02 * 1e4 / count


def test_a_minibatch_must_hold_more_than_the_window(fitted):
    predictor, params, rows = fitted
    few = jax.tree.map(lambda v: v[:, :WINDOW], rows)
    with pytest.raises(HipshieldError, match="more than 20 steps"):
        predictor.loss(params, few, jax.random.key(0))


# Acting


def test_it_reads_the_newest_transitions_whatever_came_before(fitted):
    predictor, params, rows = fitted
    other, mine = transitions(rows, 3, slice(7)), transitions(rows, 5, slice(WINDOW))
    both = tuple(jnp.concatenate(pair) for pair in zip(other, mine, strict=True))
    late, fresh = know(predictor, params, both), know(predictor, params, mine)
    assert late.count == 7 + WINDOW
    wanted = adapt(predictor, params, fresh)
    np.testing.assert_allclose(adapt(predictor, params, late), wanted, atol=1e-5)
    assert np.abs(adapt(predictor, params, know(predictor, params, other)) - wanted).max() > 0.01


def test_no_transitions_are_the_prior_and_finite(fitted):
    predictor, params, _ = fitted
    empty = predictor.start(params, jnp.zeros(2))
    b = adapt(predictor, params, empty)
    assert np.isfinite(b).all()
    left_over = empty._replace(tokens=empty.tokens + 5)  # nobody reads what is not valid
    np.testing.assert_array_equal(adapt(predictor, params, left_over), b)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", range(3))
def test_a_transition_that_is_not_finite_teaches_nothing(fitted, bad, where):
    predictor, params, rows = fitted
    belief = know(predictor, params, transitions(rows, 0, slice(5)))
    row = [v.at[0].set(bad) if i == where else v
           for i, v in enumerate(transitions(rows, 0, 6))]  # fmt: skip
    poisoned = jax.jit(predictor.learn)(params, belief, *row)
    jax.tree.map(np.testing.assert_array_equal, poisoned, belief)


def test_enormous_transitions_leave_b_finite(fitted):
    predictor, params, rows = fitted
    belief = know(predictor, params, transitions(rows, 0, slice(5)))
    row = (v * 0 + 3e38 for v in transitions(rows, 0, 6))
    after = jax.jit(predictor.learn)(params, belief, *row)
    assert after.count == 6
    assert np.isfinite(adapt(predictor, params, after)).all()


def test_a_value_of_b_that_never_changes_is_not_blown_up(fitted):
    predictor, params, rows = fitted
    same = jax.tree.map(lambda v: np.repeat(v[:1], 3, 0), rows)
    assert (jax.jit(predictor.finish)(params, same).spread == 1).all()


@pytest.mark.parametrize(
    "wrong",
    [dict(latent=0), dict(hidden=()), dict(width=9), dict(heads=0), dict(layers=0), dict(window=0)],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(HipshieldError):
        Transformer(MOTION, **wrong)
