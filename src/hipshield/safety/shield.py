"""The adaptive shield (the paper's Section 4.3), as pure functions of one robot.

    state                  = begin(shield, prior)
    action, state, verdict = decide(shield, params, state, situation)        # before each step
    state, missed          = observe(shield, params, state, before, action, after)     # after it

`decide` is the paper's five steps, which the preset `paper` fills in as published and `plan` goes
past (`settings`):

    1. pre-check   ν(e(s), E) > L_ν Δ: nothing can happen in one step, the policy acts
    2. propose     candidates: samples of the policy; a library of manoeuvres; the previous plan
    3. predict     ê_1 … ê_H of each, with what is believed of this robot
    4. score       min over h of ν(ê_h, Ê_h) − 2 L_ν Γ_h;   safe is what scores > 0
    5. choose      one of the safe ones; if there are none, the least bad

`observe` is where Γ_h comes from: it scores the predictions made h steps ago against the truth.
`batch` has the same functions for many robots, compiled.

Anything a robot sends gets an answer, a finite one within the bounds: numbers that are not finite
make candidates unsafe, never safe, and the verdict says FAULT.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hipshield.errors import HipshieldError
from hipshield.models.identify import Track
from hipshield.models.predictor import model_at
from hipshield.safety import conformal, foresight, plans
from hipshield.safety.choices import CHOICES, FALLBACKS, Options
from hipshield.safety.conformal import Calibration
from hipshield.safety.foresight import Foresight
from hipshield.safety.plans import Forecast, Proposals
from hipshield.safety.settings import Shield


class Reason(IntEnum):
    """Why a shield answered what it answered."""

    CLEAR = 0  # far from anything: the policy acts, nothing was predicted
    OWN_SAFE = 1  # the policy acts: what it proposed is safe
    REPLACED = 2  # another candidate acts, a safe one
    NOTHING_SAFE = 3  # no candidate is safe: the least bad acts
    UNCALIBRATED = 4  # the policy acts: errors are not known yet, and there was no prior
    FAULT = 5  # something was not a finite number, or the model diverged


class ShieldState(NamedTuple):
    """What a shield remembers of one robot from step to step.

    Attributes:
        calibration: a row for each of the shield's `leads`.
        foresight: predictions of the present.
        previous: the last plan, without the steps that are over, shape (horizon, actions).
    """

    calibration: Calibration
    foresight: Foresight
    previous: Any


class Situation(NamedTuple):
    """What one robot faces at one step.

    Attributes:
        track: where it is, and what is believed of it.
        samples: what the policy proposes, row 0 first of all, shape (N, actions).
        scene: E, around it now.
        key: for choices at random.
        ahead: Ê after each of the next steps: a scene whose arrays have a leading axis of the
            horizon. None: the scene stands still.
    """

    track: Track
    samples: Any
    scene: Any
    key: Any
    ahead: Any = None


class Verdict(NamedTuple):
    """What a shield did, and why.

    Attributes:
        triggered: whether the pre-check found the robot near to something, or could not tell.
        intervened: whether another candidate than the policy's acts.
        empty: whether candidates were checked and none was safe (its rate is the paper's ε̄).
        reason: a `Reason`.
        margin: ν(e(s), E), now.
        score: of the candidate that acts; not a number if none was checked.
        gamma: Γ_h of each step ahead, shape (horizon,); the first is the paper's.
        path: where the candidate that acts is predicted to lead, shape (horizon, features); not
            numbers if none was checked.
    """

    triggered: Any
    intervened: Any
    empty: Any
    reason: Any
    margin: Any
    score: Any
    gamma: Any
    path: Any


class Glance(NamedTuple):
    """What is known of one robot before anything is predicted.

    Attributes:
        b: what is believed of it.
        gamma, cap: Γ_h, and the largest finite value that may stand for it, (horizon,) each.
        margin: ν(e(s), E).
        near: whether the pre-check triggered.
        samples: finite and within bounds; those that were so before are the same bits.
        usable: which samples were finite, shape (N,).
        fault: whether anything the robot sent was not finite.
        check: whether candidates have to be checked.
    """

    b: Any
    gamma: Any
    cap: Any
    margin: Any
    near: Any
    samples: Any
    usable: Any
    fault: Any
    check: Any


class Finding(NamedTuple):
    """The candidate that acts.

    Attributes:
        row: its number; 0 is the policy's.
        plan: its actions, shape (horizon, actions).
        safe: whether it is.
        diverged: whether the prediction of the policy's own candidate was no good.
        score, path: as in `Verdict`.
    """

    row: Any
    plan: Any
    safe: Any
    diverged: Any
    score: Any
    path: Any


def begin(shield: Shield, prior: Any = None) -> ShieldState:
    """Start an episode.

    Args:
        shield: the settings.
        prior: radii to use during the warm-up, one for all lead times or one for each. Without,
            the policy acts unfiltered until errors are known.
    """
    low, high = shield.bounds
    count = len(shield.leads)
    if prior is None:
        one = conformal.begin(shield.conformal)
        rows = jax.tree.map(lambda v: jnp.broadcast_to(v, (count, *v.shape)), one)
    else:
        each = jnp.broadcast_to(jnp.asarray(prior, jnp.float32), count)
        rows = jax.vmap(lambda radius: conformal.begin(shield.conformal, radius))(each)
    idle = jnp.broadcast_to((low + high) / 2, (shield.horizon, len(low)))
    return ShieldState(rows, foresight.begin(shield.predictor, shield.horizon), idle)


def decide(
    shield: Shield, params: Any, state: ShieldState, situation: Situation
) -> tuple[jax.Array, ShieldState, Verdict]:
    """Return the action that acts, the new state, and what was done and why."""
    seen = glance(shield, params, state, situation)
    found = jax.lax.cond(
        seen.check,
        lambda: check(shield, params, state, situation, seen),
        lambda: unchecked(shield, state, seen),
    )
    return settle(shield, state, seen, found)


def observe(
    shield: Shield, params: Any, state: ShieldState, before: Track, action: Any, after: Track
) -> tuple[ShieldState, jax.Array]:
    """Calibrate on what an action led to; return also which lead times missed, shape (leads,).

    Args:
        shield: the settings.
        params: what the predictor learned.
        state: before.
        before: the robot when it acted.
        action: what it really did, whoever decided that, shape (actions,).
        after: the robot afterwards.
    """
    predictor = shield.predictor
    b = predictor.adapt(params, before.belief)
    ahead = foresight.advance(predictor, params, state.foresight, before.z, b, action)
    error, there = foresight.scores(predictor, ahead, after.z)
    rows = np.array(shield.leads) - 1
    calibration, missed = jax.vmap(
        lambda row, score, valid: conformal.update(shield.conformal, row, score, valid)
    )(state.calibration, error[rows], there[rows])
    return state._replace(calibration=calibration, foresight=ahead), missed


# Step 1


def glance(shield: Shield, params: Any, state: ShieldState, situation: Situation) -> Glance:
    """Look whether anything has to be checked at all: the paper's pre-safety check."""
    track, samples, scene, _, ahead = situation
    wanted = (shield.samples, shield.predictor.motion.actions)
    if samples.shape != wanted:
        raise HipshieldError(f"A shield wants {wanted} samples a robot, got {samples.shape}.")
    low, high = shield.bounds
    b = shield.predictor.adapt(params, track.belief)
    margin = shield.margin(shield.predictor.motion.e(track.z), scene)
    near = ~(margin > shield.lipschitz * shield.trigger)  # what cannot be told is near
    usable = jnp.isfinite(samples).all(-1)
    # In a scene, infinity says that there is no limit.
    unknown = [jnp.isnan(leaf).any() for leaf in jax.tree.leaves((scene, ahead))]
    sent = jnp.isfinite(track.z).all() & jnp.isfinite(b).all() & usable.all()
    fault = ~sent | jnp.any(jnp.array(unknown))
    known = jax.vmap(lambda row: conformal.calibrated(shield.conformal, row))(state.calibration)
    return Glance(
        b,
        *radii(shield, state.calibration),
        margin=margin,
        near=near,
        samples=_bounded(samples, low, high),
        usable=usable,
        fault=fault,
        check=(near & known.all()) | fault,
    )


def radii(shield: Shield, calibration: Calibration) -> tuple[jax.Array, jax.Array]:
    """Return Γ_h for h = 1 … H, and the finite values that may stand for them.

    Between two lead times that are calibrated, it is the larger one of theirs.
    """
    leads, steps = np.array(shield.leads), np.arange(1, shield.horizon + 1)
    above = np.searchsorted(leads, steps)
    below = np.maximum(np.searchsorted(leads, steps, side="right") - 1, 0)
    gamma = jax.vmap(lambda row: conformal.radius(shield.conformal, row))(calibration)
    cap = jnp.minimum(gamma, jax.vmap(conformal.largest)(calibration))
    return jnp.maximum(gamma[below], gamma[above]), jnp.maximum(cap[below], cap[above])


# Steps 2 to 5


def check(
    shield: Shield, params: Any, state: ShieldState, situation: Situation, seen: Glance
) -> Finding:
    """Propose, predict, score and choose."""
    z = situation.track.z
    proposals = propose(shield, state, seen.samples)
    forecast = predict(shield, params, z, seen.b, proposals)
    believed = believable(shield, forecast, shield.predictor.motion.e(z))
    believed = believed.at[: shield.samples].set(believed[: shield.samples] & seen.usable)
    scene = situation.scene if situation.ahead is None else situation.ahead
    margin = shield.margin(forecast.e, scene)
    options = assess(shield, forecast, margin, believed & ~jnp.isnan(margin).any(-1), seen)
    row = choose(shield, options, situation.key)
    return Finding(
        row=row,
        plan=forecast.actions[row],
        safe=options.safe[row],
        diverged=~options.believed[0],
        score=options.score[row],
        path=forecast.e[row],
    )


def propose(shield: Shield, state: ShieldState, samples: Any) -> Proposals:
    """Return the candidates: first the policy's samples, last the previous plan."""
    horizon, holds = shield.horizon, shield.continuation == "hold"
    low, high = shield.bounds
    parts = [plans.held_actions(samples, horizon, horizon if holds else shield.hold)]
    if "library" in shield.sources:
        durations = (horizon,) if holds else shield.durations
        parts.append(plans.library(low, high, horizon, durations))
    if "previous" in shield.sources:
        # Its first action is never left to a continuation: it is there when nothing else is.
        steps = horizon if holds else max(1, horizon - 1)
        parts.append(Proposals(state.previous[None], jnp.full(1, steps)))
    return plans.joined(parts)


def predict(shield: Shield, params: Any, z: Any, b: Any, proposals: Proposals) -> Forecast:
    """Return where all candidates lead, if the robot is as believed."""
    motion = shield.predictor.motion
    model = model_at(shield.predictor, params, b)
    if shield.continuation == "hold":
        return plans.rollout(motion, model, z, proposals, None)
    low, high = shield.bounds
    spread = params.scale.x_scale[: motion.now]
    gain = plans.brake_gain(motion, model, z, (low + high) / 2, spread) * shield.kappa
    return plans.rollout(motion, model, z, proposals, plans.brake(motion, gain, low, high))


def believable(shield: Shield, forecast: Forecast, here: Any) -> jax.Array:
    """Return whose predictions are finite and never leap, shape (candidates,)."""
    start = jnp.broadcast_to(here, forecast.e[:, :1].shape)
    change = jnp.diff(jnp.concatenate([start, forecast.e], 1), axis=1)
    # What is not finite compares as false.
    return ((change**2).sum(-1) <= shield.leap**2).all(-1)


def assess(shield: Shield, forecast: Forecast, margin: Any, believed: Any, seen: Glance) -> Options:
    """Return each candidate's SafetyScore = min over h of ν(ê_h, Ê_h) − 2 L_ν Γ_h, and the like.

    Args:
        shield: the settings.
        forecast: of the candidates.
        margin: ν(ê_h, Ê_h), shape (candidates, horizon).
        believed: whose predictions are, shape (candidates,).
        seen: before.
    """
    factor = shield.doubt * shield.lipschitz
    doubt = factor * seen.gamma if factor else jnp.zeros(shield.horizon)
    least = jnp.where(jnp.isinf(doubt), -jnp.inf, margin - doubt).min(-1)
    score = jnp.where(believed, least, -jnp.inf)
    hoped = margin - factor * seen.cap
    low, high = shield.bounds
    return Options(
        first=forecast.actions[:, 0] * 2 / (high - low),
        believed=believed,
        score=score,
        safe=score > shield.beyond,
        hope=jnp.where(believed, hoped.min(-1), -jnp.inf),
        violation=jnp.where(believed, jnp.maximum(shield.beyond - hoped, 0).sum(-1), jnp.inf),
    )


def choose(shield: Shield, options: Options, key: Any) -> jax.Array:
    """Return the row of the candidate that acts."""
    chosen = CHOICES[shield.choice](options, shield.k, key)
    least_bad = FALLBACKS[shield.fallback](options)
    # When nothing can be predicted, the previous plan is the last thing that was known to be good.
    blind = len(options.score) - 1 if "previous" in shield.sources else 0
    least_bad = jnp.where(options.believed.any(), least_bad, blind)
    return jnp.where(options.safe.any(), chosen, least_bad)


def unchecked(shield: Shield, state: ShieldState, seen: Glance) -> Finding:
    """Return the policy's own proposal, nothing having been predicted."""
    features = jax.eval_shape(shield.predictor.motion.e, state.foresight.z).shape
    return Finding(
        row=jnp.zeros((), jnp.int32),
        plan=state.previous.at[0].set(seen.samples[0]),
        safe=jnp.zeros((), bool),
        diverged=jnp.zeros((), bool),
        score=jnp.full((), jnp.nan, jnp.float32),
        path=jnp.full(features, jnp.nan, jnp.float32),
    )


def settle(
    shield: Shield, state: ShieldState, seen: Glance, found: Finding
) -> tuple[jax.Array, ShieldState, Verdict]:
    """Return the first action of what was found, and say why."""
    low, high = shield.bounds
    plan = jnp.where(jnp.isfinite(found.plan), found.plan, (low + high) / 2)
    own = found.row == 0
    reason = jnp.select(
        [seen.fault | found.diverged, ~seen.near, ~seen.check, found.safe & own, found.safe],
        [Reason.FAULT, Reason.CLEAR, Reason.UNCALIBRATED, Reason.OWN_SAFE, Reason.REPLACED],
        Reason.NOTHING_SAFE,
    )
    verdict = Verdict(
        triggered=seen.near,
        intervened=~own,
        empty=seen.check & ~found.safe,
        reason=reason.astype(jnp.int32),
        margin=seen.margin,
        score=found.score,
        gamma=seen.gamma,
        path=found.path,
    )
    return plan[0], state._replace(previous=plans.next_of(plan)), verdict


def _bounded(actions: Any, low: np.ndarray, high: np.ndarray) -> jax.Array:
    """Return actions within bounds, the middle for what is not finite.

    What is within bounds already is passed around the clipping, which flushes the tiniest numbers
    to zero: it shall stay the same bits.
    """
    inside = (actions >= low) & (actions <= high)
    finite = jnp.where(jnp.isfinite(actions), actions, (low + high) / 2)
    return jnp.where(inside, actions, jnp.clip(finite, low, high))
