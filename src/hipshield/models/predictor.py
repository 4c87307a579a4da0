"""The contract of a dynamics predictor: what any of them must do to drive a shield.

Predictors are frozen records of sizes; what they learned offline is in `params`, what they know
of the robot at hand in `belief`, both pytrees that go in and come out. All functions are about one
robot: callers map them over a batch.

    belief = predictor.start(params, phi)            # a new episode: nothing is known yet
    b      = predictor.adapt(params, belief)         # the paper's b_φ; once a step
    y      = predictor.predict(params, b, x, a)      # many times a step: one a candidate
    belief = predictor.learn(params, belief, x, a, y)    # the transition that really happened

Fitting is the same loop for all (`models/fit.py`): `init`, `loss` and `finish`.

`params` has at least the fields `theta`, which fitting descends on, and `scale`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from hipshield.errors import HipshieldError
from hipshield.models.motion import Motion


class Rows(NamedTuple):
    """Transitions of some episodes, as a predictor sees them.

    Attributes:
        x: shape (episodes, steps, inputs).
        action: shape (episodes, steps, actions).
        y: changes, shape (episodes, steps, outputs).
        phi: hidden parameters φ, shape (episodes, parameters).
    """

    x: Any
    action: Any
    y: Any
    phi: Any


class Scale(NamedTuple):
    """Means and spreads that make the network's inputs and outputs numbers of order one."""

    x_mean: Any
    x_scale: Any
    y_mean: Any
    y_scale: Any
    phi_mean: Any
    phi_scale: Any

    def inputs(self, x: Any, a: Any) -> jax.Array:
        """Return what a network sees of x and a, shape (..., inputs + actions)."""
        return jnp.concatenate([(x - self.x_mean) / self.x_scale, a], -1)

    def standard(self, y: Any) -> jax.Array:
        """Return a change as a network has it: of order one."""
        return (y - self.y_mean) / self.y_scale

    def change(self, standard: Any) -> jax.Array:
        """Return the change y of what a network says."""
        return self.y_mean + self.y_scale * standard

    def told(self, phi: Any, count: int) -> jax.Array:
        """Return an oracle's context: the first `count` values of φ, standardised.

        A value that is not finite is not known, so it becomes the training mean: 0.
        """
        if phi.shape[-1] < count:
            raise HipshieldError(
                f"This oracle is told {count} hidden parameters, and got {phi.shape[-1]}."
            )
        if not count:  # whatever φ's size: nobody looks at it
            return jnp.zeros((*phi.shape[:-1], 0))
        standard = ((phi - self.phi_mean) / self.phi_scale)[..., :count]
        return jnp.where(jnp.isfinite(standard), standard, 0.0)


def require_steps(kind: str, rows: Rows, support: int) -> None:
    """Refuse a minibatch whose episodes have nothing left beyond what contexts are taken from."""
    steps = rows.x.shape[1]
    if steps <= support:
        raise HipshieldError(
            f"Fitting this {kind} needs more than {support} steps of an episode in a minibatch,"
            f" the size of its support; got {steps}."
        )


class Predictor(Protocol):
    """See the module's text.

    Attributes:
        kind: name of the kind of model, as the command line and files have it.
        motion: of the robot.
        context: number of values in b.
        count: number of parameters that fitting learns.
    """

    @property
    def kind(self) -> str:
        """Name of the kind."""

    @property
    def motion(self) -> Motion:
        """Of the robot."""

    @property
    def context(self) -> int:
        """Number of values in b."""

    @property
    def count(self) -> int:
        """Number of parameters."""

    def init(self, key: jax.Array, scale: Scale) -> Any:
        """Draw parameters."""

    def loss(self, params: Any, rows: Rows, key: jax.Array) -> jax.Array:
        """Return what fitting minimises, of a batch of episodes, shape ()."""

    def finish(self, params: Any, rows: Rows) -> Any:
        """Return the parameters with what is known only after fitting, such as priors."""

    def start(self, params: Any, phi: jax.Array) -> Any:
        """Return the belief at the start of an episode; only oracles look at φ."""

    def learn(self, params: Any, belief: Any, x: jax.Array, a: jax.Array, y: jax.Array) -> Any:
        """Return the belief after one transition."""

    def adapt(self, params: Any, belief: Any) -> jax.Array:
        """Return b, shape (context,)."""

    def predict(self, params: Any, b: jax.Array, x: jax.Array, a: jax.Array) -> jax.Array:
        """Return the change y, shape (outputs,)."""


def model_at(predictor: Predictor, params: Any, b: jax.Array) -> Callable[[Any, Any], jax.Array]:
    """Return (x, a) -> y of a predictor for one b, to be asked many times.

    A predictor that can use b beforehand does so in a method `at`, which must agree with `predict`.
    """
    at = getattr(predictor, "at", None)
    return at(params, b) if at else lambda x, a: predictor.predict(params, b, x, a)
