"""The MLP: one network for all robots. It learns nothing online; as an oracle it is told φ."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hipshield.errors import HipshieldError
from hipshield.mlp import Mlp
from hipshield.models.motion import Motion
from hipshield.models.predictor import Rows, Scale


class Perceptron(NamedTuple):
    """What fitting an MLP gives: the network's parameters, flat, and the scale."""

    theta: Any
    scale: Scale


@dataclass(frozen=True)
class MlpPredictor:
    """Settings of an MLP.

    Attributes:
        motion: of the robot.
        phi: number of hidden parameters it is told; 0 for none.
        hidden: widths of the layers.
    """

    motion: Motion
    phi: int = 0
    hidden: tuple[int, ...] = (64, 64)
    kind = "mlp"

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.phi < 0 or not self.hidden or min(self.hidden) < 1:
            raise HipshieldError("An MLP needs widths ≥ 1, and phi ≥ 0.")

    @property
    def context(self) -> int:
        """Number of values in b: the hidden parameters, standardised."""
        return self.phi

    @property
    def net(self) -> Mlp:
        """The network: (x, a, b) ↦ standardised y."""
        inputs = self.motion.inputs + self.motion.actions + self.phi
        return Mlp((inputs, *self.hidden, self.motion.outputs))

    @property
    def count(self) -> int:
        """Number of parameters."""
        return self.net.count

    def init(self, key: jax.Array, scale: Scale) -> Perceptron:
        """Draw parameters."""
        return Perceptron(self.net.init(key), scale)

    def loss(self, params: Perceptron, rows: Rows, key: jax.Array) -> jax.Array:
        """Return the mean squared error of all rows, standardised."""
        del key
        b = params.scale.told(rows.phi, self.phi)
        guess = self._standard(params, b[:, None], rows.x, rows.action)
        return ((guess - params.scale.standard(rows.y)) ** 2).mean()

    def finish(self, params: Perceptron, rows: Rows) -> Perceptron:
        """Return the parameters as they are."""
        return params

    def start(self, params: Perceptron, phi: jax.Array) -> jax.Array:
        """Return the belief: φ, standardised, if it is told at all."""
        return params.scale.told(phi, self.phi)

    def learn(self, params: Perceptron, belief: Any, x: Any, a: Any, y: Any) -> jax.Array:
        """Return the belief as it is."""
        return belief

    def adapt(self, params: Perceptron, belief: jax.Array) -> jax.Array:
        """Return b, shape (phi,)."""
        return belief

    def predict(self, params: Perceptron, b: jax.Array, x: Any, a: Any) -> jax.Array:
        """Return the change y; x and a may have leading axes."""
        return params.scale.change(self._standard(params, b, x, a))

    def _standard(self, params: Perceptron, b: Any, x: Any, a: Any) -> jax.Array:
        seen = params.scale.inputs(x, a)
        told = jnp.broadcast_to(b, (*seen.shape[:-1], self.phi))
        return self.net.apply(params.theta, jnp.concatenate([seen, told], -1))
