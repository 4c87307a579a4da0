"""The function encoder: a robot's dynamics as a point in the span of learned bases.

    ŷ(x, a) = g_0(x, a) + Σ_i b_i g_i(x, a)              (paper, Section 4.2)

Offline, each episode is one function: its coefficients come from least squares on some of its
transitions, and the bases descend on the error of others, plus the unit-norm regulariser. Online,
`least_squares` accumulates; a step costs one evaluation of the bases and one k × k solve.

After fitting, the bases are *whitened*: b is centred (its training mean moves into g_0) and
rotated and scaled so that over the training episodes it has mean 0 and covariance I. That changes
no prediction, and it makes the ridge of the online solve the prior that the data speak for, and b
a well-scaled input for a policy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hipshield.errors import HipshieldError
from hipshield.mlp import Mlp
from hipshield.models.least_squares import Moments, include, nothing, solve, solve_positive
from hipshield.models.motion import Motion
from hipshield.models.predictor import Rows, Scale, require_steps

_FIT_RIDGE = 1e-3  # in units of the bases' mean square, for the batch solves of fitting
_LEAST_NOISE = 1e-3  # of a standardised output: no sensor is trusted beyond that
_TRUST = 0.1  # errors of consecutive steps are alike: ten of them count as one


class Encoder(NamedTuple):
    """What fitting a function encoder gives.

    Attributes:
        theta: the network's parameters, flat.
        scale: of inputs and outputs.
        centre: training mean of b in the network's own bases, shape (k,).
        mix: whitened bases from the network's own, shape (k, k).
        weight: w, one an output, shape (outputs,).
    """

    theta: Any
    scale: Scale
    centre: Any
    mix: Any
    weight: Any


@dataclass(frozen=True)
class FunctionEncoder:
    """Settings of a function encoder.

    Attributes:
        motion: of the robot.
        bases: their number k.
        hidden: widths of the network's layers; its last layer has a head for each basis.
        average: learn g_0; without it the mean change is predicted from the bases alone.
        keep: share of the past that one step keeps; below 1 the robot's physics may change.
        support: transitions of an episode that fitting takes coefficients from.
        norm: weight of the unit-norm regulariser.
    """

    motion: Motion
    bases: int = 3
    hidden: tuple[int, ...] = (64, 64)
    average: bool = True
    keep: float = 1.0
    support: int = 100
    norm: float = 1e-3
    kind = "function-encoder"

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.bases < 1 or self.support < 1 or not self.hidden or min(self.hidden) < 1:
            raise HipshieldError("A function encoder needs bases, support and widths ≥ 1.")
        if not 0 < self.keep <= 1 or self.norm < 0:
            raise HipshieldError("A function encoder needs 0 < keep ≤ 1 and norm ≥ 0.")

    @property
    def context(self) -> int:
        """Number of values in b."""
        return self.bases

    @property
    def net(self) -> Mlp:
        """The network: (x, a) ↦ all bases, g_0 last."""
        heads = self.bases + self.average
        inputs = self.motion.inputs + self.motion.actions
        return Mlp((inputs, *self.hidden, heads * self.motion.outputs))

    @property
    def count(self) -> int:
        """Number of parameters."""
        return self.net.count

    def init(self, key: jax.Array, scale: Scale) -> Encoder:
        """Draw parameters; nothing is whitened yet."""
        k = self.bases
        ones = jnp.ones(self.motion.outputs)
        return Encoder(self.net.init(key), scale, jnp.zeros(k), jnp.eye(k), ones)

    def raw(self, params: Encoder, x: Any, a: Any) -> tuple[jax.Array, jax.Array]:
        """Return the network's bases (..., k, outputs) and g_0 (..., outputs), standardised."""
        out = self.net.apply(params.theta, params.scale.inputs(x, a))
        out = out.reshape(*out.shape[:-1], self.bases + self.average, self.motion.outputs)
        none = jnp.zeros_like(out[..., 0, :])
        return out[..., : self.bases, :], out[..., -1, :] if self.average else none

    def basis(self, params: Encoder, x: Any, a: Any) -> tuple[jax.Array, jax.Array]:
        """Return the whitened bases, shape (..., k, outputs), and the average they move."""
        raw, average = self.raw(params, x, a)
        average = average + jnp.einsum("k,...ko->...o", params.centre, raw)
        return jnp.einsum("ik,...ko->...io", params.mix, raw), average

    # Fitting

    def loss(self, params: Encoder, rows: Rows, key: jax.Array) -> jax.Array:
        """Return the error on the transitions that the coefficients were not taken from."""
        del key
        require_steps(self.kind, rows, self.support)
        target = params.scale.standard(rows.y)
        bases, average = self.raw(params, rows.x, rows.action)
        b = jax.vmap(_coefficients)(bases[:, : self.support], (target - average)[:, : self.support])
        guess = average + jnp.einsum("ek,esko->eso", b, bases)
        error = ((guess - target)[:, self.support :] ** 2).mean()
        norms = (bases**2).mean((0, 1, 3))
        return error + self.norm * ((norms - 1) ** 2).sum()

    def finish(self, params: Encoder, rows: Rows) -> Encoder:
        """Whiten the bases by the coefficients of whole training episodes."""
        target = params.scale.standard(rows.y)

        def of_episode(row: tuple[Any, Any, Any]) -> tuple[jax.Array, jax.Array]:
            x, a, wanted = row
            bases, average = self.raw(params, x, a)
            b = _coefficients(bases, wanted - average)
            left = wanted - average - jnp.einsum("k,sko->so", b, bases)
            return b, (left**2).mean(0)

        b, noise = jax.lax.map(of_episode, (rows.x, rows.action, target))
        noise = jnp.maximum(noise.mean(0), _LEAST_NOISE**2)
        centre = b.mean(0)
        spread = (b - centre).T @ (b - centre) / max(len(b) - 1, 1)
        values, vectors = jnp.linalg.eigh(spread)
        mix = (vectors * jnp.sqrt(jnp.maximum(values, 1e-12))).T
        return params._replace(centre=centre, mix=mix, weight=_TRUST / noise)

    # Acting

    def start(self, params: Encoder, phi: jax.Array) -> Moments:
        """Return the belief at the start of an episode: the training mean."""
        return nothing(self.bases)

    def learn(self, params: Encoder, belief: Moments, x: Any, a: Any, y: Any) -> Moments:
        """Take in one transition."""
        bases, average = self.basis(params, x, a)
        residual = params.scale.standard(y) - average
        return include(belief, bases, residual, params.weight, self.keep)

    def adapt(self, params: Encoder, belief: Moments) -> jax.Array:
        """Return b, shape (k,)."""
        return solve(belief)

    def predict(self, params: Encoder, b: jax.Array, x: Any, a: Any) -> jax.Array:
        """Return the change y that the belief b expects; x and a may have leading axes."""
        bases, average = self.basis(params, x, a)
        guess = average + jnp.einsum("k,...ko->...o", b, bases)
        return params.scale.change(guess)

    def at(self, params: Encoder, b: jax.Array) -> Callable[[Any, Any], jax.Array]:
        """Return (x, a) -> y for one b: a plain network, for rollouts that ask it often.

        Only the last layer knows the bases, and it is linear: Σ b_i g_i is one small layer, whose
        weights are that combination of all heads' weights. Scales are part of the layers, too.
        """
        scale, outputs = params.scale, self.motion.outputs
        first, offset, *between, last, end = self.net.split(params.theta)
        heads = params.centre + params.mix.T @ b
        heads = jnp.append(heads, 1.0) if self.average else heads
        seen = first[: self.motion.inputs] / scale.x_scale[:, None]
        last = jnp.einsum("k,iko->io", heads, last.reshape(len(last), -1, outputs))
        layers = (
            jnp.concatenate([seen, first[self.motion.inputs :]]),
            offset - scale.x_mean @ seen,
            *between,
            last * scale.y_scale,
            heads @ end.reshape(-1, outputs) * scale.y_scale + scale.y_mean,
        )
        return lambda x, a: self.net.apply(layers, jnp.concatenate([x, a], -1))


def _coefficients(bases: jax.Array, residual: jax.Array) -> jax.Array:
    """Return least-squares coefficients of one episode's transitions.

    Args:
        bases: shape (steps, k, outputs).
        residual: y − g_0, shape (steps, outputs).
    """
    count = residual.size
    gram = jnp.einsum("sko,slo->kl", bases, bases) / count
    moment = jnp.einsum("sko,so->k", bases, residual) / count
    ridge = _FIT_RIDGE * jnp.trace(gram) / len(gram) + 1e-8
    return solve_positive(gram + ridge * jnp.eye(len(gram), dtype=gram.dtype), moment)
