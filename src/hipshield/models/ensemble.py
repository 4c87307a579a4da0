"""The probabilistic ensemble: networks that say what they expect, and how sure they are.

Each member has a mean and a variance for each output, and fits them by their likelihood. Members
differ in where they start and in the transitions they see, so where they agree the data decided,
and where they disagree nobody knows. It learns nothing online; as an oracle it is told φ.

The likelihood's gradient gives a mean up where its variance is large, which then stays large: what
is hard to predict at first is never learned. Each term's gradient is therefore weighted by its own
variance to the power β (Seitzer et al., 2022); where the likelihood is best stays where it was.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hipshield.errors import HipshieldError
from hipshield.mlp import Mlp
from hipshield.models.motion import Motion
from hipshield.models.predictor import Rows, Scale

# Of a standardised output's log variance. A likelihood has no maximum where a network fits some
# transitions exactly, and an outlier's is no excuse to give up an output.
_LEAST, _MOST = -10.0, 2.0
_BETA = 0.5


class Members(NamedTuple):
    """What fitting an ensemble gives: its networks' parameters, a row a member, and the scale."""

    theta: Any
    scale: Scale


@dataclass(frozen=True)
class Ensemble:
    """Settings of an ensemble.

    Attributes:
        motion: of the robot.
        phi: number of hidden parameters it is told; 0 for none.
        members: number of networks.
        hidden: widths of each network's layers.
    """

    motion: Motion
    phi: int = 0
    members: int = 5
    hidden: tuple[int, ...] = (64, 64)
    kind = "ensemble"

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.phi < 0 or self.members < 1 or not self.hidden or min(self.hidden) < 1:
            raise HipshieldError("An ensemble needs members and widths ≥ 1, and phi ≥ 0.")

    @property
    def context(self) -> int:
        """Number of values in b: the hidden parameters, standardised."""
        return self.phi

    @property
    def net(self) -> Mlp:
        """A member's network: (x, a, b) ↦ means and unbounded log variances of standardised y."""
        inputs = self.motion.inputs + self.motion.actions + self.phi
        return Mlp((inputs, *self.hidden, 2 * self.motion.outputs))

    @property
    def count(self) -> int:
        """Number of parameters."""
        return self.members * self.net.count

    def init(self, key: jax.Array, scale: Scale) -> Members:
        """Draw parameters, each member its own."""
        return Members(jax.vmap(self.net.init)(jax.random.split(key, self.members)), scale)

    def loss(self, params: Members, rows: Rows, key: jax.Array) -> jax.Array:
        """Return the members' mean negative log likelihood, each of its own share of the rows.

        Its value is the likelihood's, whatever β: so that validation compares like with like.
        """
        del key  # the rows are drawn without order already: shares are as random as they are
        share = rows.x.shape[1] // self.members
        if not share:
            raise HipshieldError(
                f"An ensemble of {self.members} needs as many steps of an episode in a minibatch."
            )

        def deal(values: jax.Array) -> jax.Array:
            episodes, _, size = values.shape
            dealt = values[:, : share * self.members].reshape(episodes, self.members, share, size)
            return jnp.moveaxis(dealt, 1, 0)

        b = params.scale.told(rows.phi, self.phi)[:, None]
        seen = deal(params.scale.inputs(rows.x, rows.action))
        mean, log_variance = jax.vmap(self._member, (0, None, 0))(params.theta, b, seen)
        error = mean - deal(params.scale.standard(rows.y))
        each = 0.5 * (error**2 * jnp.exp(-log_variance) + log_variance)
        weighted = each * jax.lax.stop_gradient(jnp.exp(_BETA * log_variance))
        return (weighted + jax.lax.stop_gradient(each - weighted)).mean()

    def finish(self, params: Members, rows: Rows) -> Members:
        """Return the parameters as they are."""
        return params

    def start(self, params: Members, phi: jax.Array) -> jax.Array:
        """Return the belief: φ, standardised, if it is told at all."""
        return params.scale.told(phi, self.phi)

    def learn(self, params: Members, belief: Any, x: Any, a: Any, y: Any) -> jax.Array:
        """Return the belief as it is."""
        return belief

    def adapt(self, params: Members, belief: jax.Array) -> jax.Array:
        """Return b, shape (phi,)."""
        return belief

    def predict(self, params: Members, b: jax.Array, x: Any, a: Any) -> jax.Array:
        """Return the change y, the mean of the members'; x and a may have leading axes."""
        mean, _ = self._all(params, b, x, a)
        return params.scale.change(mean.mean(0))

    def spread(self, params: Members, b: jax.Array, x: Any, a: Any) -> tuple[jax.Array, jax.Array]:
        """Return how far the truth may be from y, as two standard deviations in y's units.

        The first is the noise that members expect, the second their disagreement: what data would
        reduce. Their squares add up to the variance of the ensemble as a mixture.
        """
        mean, log_variance = self._all(params, b, x, a)
        noise = jnp.sqrt(jnp.exp(log_variance).mean(0))
        return noise * params.scale.y_scale, mean.std(0) * params.scale.y_scale

    def _all(self, params: Members, b: Any, x: Any, a: Any) -> tuple[jax.Array, jax.Array]:
        """Return each member's means and log variances, shape (members, ..., outputs)."""
        seen = params.scale.inputs(x, a)
        return jax.vmap(self._member, (0, None, None))(params.theta, b, seen)

    def _member(self, theta: Any, b: Any, seen: Any) -> tuple[jax.Array, jax.Array]:
        told = jnp.broadcast_to(b, (*seen.shape[:-1], self.phi))
        out = self.net.apply(theta, jnp.concatenate([seen, told], -1))
        mean, free = jnp.split(out, 2, -1)
        # Smooth at both ends, so that a variance that went too far is told the way back.
        below = _MOST - jax.nn.softplus(_MOST - free)
        return mean, _LEAST + jax.nn.softplus(below - _LEAST)
