"""The shield for a batch of robots, compiled: one row a robot, one robot is a batch of one.

    state                  = begin(shield, robots, prior)
    action, state, verdict = decide(shield, params, state, situation)
    state, missed          = observe(shield, params, state, before, action, after)

Most robots are far from anything most of the time. Mapping `shield.decide` over a batch would
predict for all of them as soon as one has to be checked; here, those that have to be are gathered
and checked a few at a time.
"""

from collections import Counter
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hipshield.safety import shield as one
from hipshield.safety.settings import Shield
from hipshield.safety.shield import Finding, Glance, ShieldState, Situation, Verdict

trace_counts: Counter[tuple[str, str]] = Counter()  # (kind of predictor, function) -> compilations
_TOGETHER = 4  # robots that are checked at a time


@partial(jax.jit, static_argnums=(0, 1))
def begin(shield: Shield, robots: int, prior: Any = None) -> ShieldState:
    """Start an episode of each robot.

    Args:
        shield: the settings.
        robots: how many.
        prior: radii during the warm-up, one for all lead times or one for each; see
            `shield.begin`.
    """
    trace_counts[shield.predictor.kind, "begin"] += 1
    state = one.begin(shield, prior)
    return jax.tree.map(lambda v: jnp.broadcast_to(v, (robots, *v.shape)), state)


@partial(jax.jit, static_argnums=0)
def decide(
    shield: Shield, params: Any, state: ShieldState, situation: Situation
) -> tuple[jax.Array, ShieldState, Verdict]:
    """Return the actions that act, the new states, and what was done and why."""
    trace_counts[shield.predictor.kind, "decide"] += 1
    seen = jax.vmap(partial(one.glance, shield, params))(state, situation)
    found = _found(shield, params, state, situation, seen)
    return jax.vmap(partial(one.settle, shield))(state, seen, found)


@partial(jax.jit, static_argnums=0)
def observe(
    shield: Shield, params: Any, state: ShieldState, before: Any, action: Any, after: Any
) -> tuple[ShieldState, jax.Array]:
    """Calibrate on what the actions led to; return also what missed, shape (robots, leads)."""
    trace_counts[shield.predictor.kind, "observe"] += 1
    return jax.vmap(partial(one.observe, shield, params))(state, before, action, after)


def _found(
    shield: Shield, params: Any, state: ShieldState, situation: Situation, seen: Glance
) -> Finding:
    """Return what acts, of robots that are checked as of those that are not."""
    robots = len(seen.check)
    # Without a pre-check all are checked, and all at once is faster than a few at a time.
    size = robots if np.isinf(shield.trigger) else min(_TOGETHER, robots)
    waiting = jnp.argsort(~seen.check)  # those to be checked first; the sort is stable
    waiting = jnp.concatenate([waiting, jnp.full(size, robots)])  # the last few are nobody

    def some(carry: tuple[Any, Finding]) -> tuple[Any, Finding]:
        done, found = carry
        who = jax.lax.dynamic_slice(waiting, (done,), (size,))
        theirs = jax.tree.map(lambda v: v[who], (state, situation, seen))
        new = jax.vmap(partial(one.check, shield, params))(*theirs)
        put = jnp.where(seen.check[who], who, robots)
        found = jax.tree.map(lambda old, v: old.at[put].set(v, mode="drop"), found, new)
        return done + size, found

    start = jax.vmap(partial(one.unchecked, shield))(state, seen)
    count = seen.check.sum()
    return jax.lax.while_loop(lambda carry: carry[0] < count, some, (0, start))[1]
