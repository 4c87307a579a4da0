"""The transformer: an encoder reads the episode's newest transitions, a network is told its result.

    b = Enc({(x, a, y)}),   ŷ = f(x, a, b)      (paper, "Alternative Dynamics Predictors")

The encoder reads a *set* (`attention.py`): transitions drawn from an episode without order, as in
fitting, and the last hundred of a drive, as online, are the same kind of thing to it. Of a long
drive it reads the newest, not the first: they are about where the robot is now, and about its
physics now, should they change. Fitting shows it sets of any size, the empty one too, whose result
is the prior.

After fitting, b is centred and scaled so that over the training episodes each of its values has
mean 0 and spread 1, which changes no prediction and makes it a well-scaled input for a policy.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hipshield.errors import HipshieldError
from hipshield.mlp import Mlp
from hipshield.models.attention import SetEncoder, Weights
from hipshield.models.motion import Motion
from hipshield.models.predictor import Rows, Scale, require_steps

_FAR = 10.0  # spreads: beyond them a value is only 'far', so that the encoder's sums stay finite
_LEAST_SPREAD = 1e-6  # of a value of b: below it says nothing, and is not blown up


class Theta(NamedTuple):
    """What fitting learns: the encoder's parameters, and the network's, flat."""

    encoder: Weights
    net: Any


class Fitted(NamedTuple):
    """What fitting a transformer gives.

    Attributes:
        theta: the parameters.
        scale: of inputs and outputs.
        centre, spread: of the encoder's results over the training episodes, shape (latent,).
    """

    theta: Theta
    scale: Scale
    centre: Any
    spread: Any


class Window(NamedTuple):
    """What is known of a robot: its newest transitions, in no particular order.

    Attributes:
        tokens: standardised (x, a, y), shape (window, inputs + actions + outputs).
        count: transitions since the episode's start; the first `count` tokens are valid.
    """

    tokens: Any
    count: Any


@dataclass(frozen=True)
class Transformer:
    """Settings of a transformer.

    Attributes:
        motion: of the robot.
        latent: number of values in b.
        width, heads, layers: of the encoder.
        hidden: widths of the network that is told b.
        window: transitions the encoder reads at the most, in fitting and online.
    """

    motion: Motion
    latent: int = 3
    width: int = 12
    heads: int = 2
    layers: int = 2
    hidden: tuple[int, ...] = (48, 48)
    window: int = 100
    kind = "transformer"

    def __post_init__(self) -> None:
        """Check the numbers."""
        sizes = (self.latent, self.width, self.heads, self.layers, self.window, *self.hidden)
        if not self.hidden or min(sizes) < 1 or self.width % self.heads:
            raise HipshieldError(
                "A transformer needs latent, layers, window and widths ≥ 1, and heads ≥ 1 that"
                " divide its width."
            )

    @property
    def context(self) -> int:
        """Number of values in b."""
        return self.latent

    @property
    def encoder(self) -> SetEncoder:
        """The encoder: {(x, a, y)} ↦ b."""
        inputs = self.motion.inputs + self.motion.actions + self.motion.outputs
        return SetEncoder(inputs, self.latent, self.width, self.heads, self.layers)

    @property
    def net(self) -> Mlp:
        """The network: (x, a, b) ↦ standardised y."""
        inputs = self.motion.inputs + self.motion.actions + self.latent
        return Mlp((inputs, *self.hidden, self.motion.outputs))

    @property
    def count(self) -> int:
        """Number of parameters."""
        return self.encoder.count + self.net.count

    def init(self, key: jax.Array, scale: Scale) -> Fitted:
        """Draw parameters; b is what the encoder says as yet."""
        first, second = jax.random.split(key)
        theta = Theta(self.encoder.init(first), self.net.init(second))
        return Fitted(theta, scale, jnp.zeros(self.latent), jnp.ones(self.latent))

    # Fitting

    def loss(self, params: Fitted, rows: Rows, key: jax.Array) -> jax.Array:
        """Return the error beyond the first `window` transitions, of which the encoder reads some.

        How many is drawn for each episode, with few more often than many: a robot is to be known
        soon, and a hundred transitions hardly say more than ninety.
        """
        require_steps(self.kind, rows, self.window)
        size = jax.random.uniform(key, rows.x.shape[:1]) ** 2 * (self.window + 1)
        valid = jnp.arange(self.window) < jnp.floor(size)[:, None]
        read = jax.tree.map(lambda v: v[:, : self.window], rows[:3])
        x, a, y = jax.tree.map(lambda v: v[:, self.window :], rows[:3])
        result = jax.vmap(self._encode, (None, 0, 0))(params, self._tokens(params, *read), valid)
        guess = self._standard(params, result[:, None], x, a)
        return ((guess - params.scale.standard(y)) ** 2).mean()

    def finish(self, params: Fitted, rows: Rows) -> Fitted:
        """Centre and scale b by the newest transitions of training episodes."""
        newest = jax.tree.map(lambda v: v[:, -self.window :], rows[:3])
        valid = jnp.ones(newest[0].shape[1], bool)
        result = jax.lax.map(
            lambda row: self._encode(params, self._tokens(params, *row), valid), newest
        )
        spread = result.std(0)
        spread = jnp.where(spread > _LEAST_SPREAD, spread, 1.0)
        return params._replace(centre=result.mean(0), spread=spread)

    # Acting

    def start(self, params: Fitted, phi: jax.Array) -> Window:
        """Return the belief at the start of an episode: no transitions."""
        return Window(jnp.zeros((self.window, self.encoder.inputs)), jnp.zeros((), jnp.int32))

    def learn(self, params: Fitted, belief: Window, x: Any, a: Any, y: Any) -> Window:
        """Take in one transition, in the place of the oldest; none if it is not finite."""
        fine = jnp.isfinite(jnp.concatenate([x, a, y])).all()
        # A comparison with every place, not an indexed write: mapped over robots, it is fused.
        here = fine & (jnp.arange(self.window) == belief.count % self.window)
        tokens = jnp.where(here[:, None], self._tokens(params, x, a, y), belief.tokens)
        return Window(tokens, belief.count + fine)

    def adapt(self, params: Fitted, belief: Window) -> jax.Array:
        """Return b, shape (latent,)."""
        valid = jnp.arange(self.window) < belief.count
        return (self._encode(params, belief.tokens, valid) - params.centre) / params.spread

    def predict(self, params: Fitted, b: jax.Array, x: Any, a: Any) -> jax.Array:
        """Return the change y that b expects; x and a may have leading axes."""
        result = params.centre + params.spread * b
        return params.scale.change(self._standard(params, result, x, a))

    def _tokens(self, params: Fitted, x: Any, a: Any, y: Any) -> jax.Array:
        values = jnp.concatenate([params.scale.inputs(x, a), params.scale.standard(y)], -1)
        return jnp.clip(values, -_FAR, _FAR)

    def _encode(self, params: Fitted, tokens: Any, valid: Any) -> jax.Array:
        return self.encoder.apply(params.theta.encoder, tokens, valid)

    def _standard(self, params: Fitted, result: Any, x: Any, a: Any) -> jax.Array:
        seen = params.scale.inputs(x, a)
        told = jnp.broadcast_to(result, (*seen.shape[:-1], self.latent))
        return self.net.apply(params.theta.net, jnp.concatenate([seen, told], -1))
