"""Episodes as a predictor sees them: recorded observations turned into states and changes."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from hipshield.errors import HipshieldError
from hipshield.models.motion import Motion
from hipshield.models.predictor import Rows


class Episode(NamedTuple):
    """What one robot sent and did, one row a step; T actions lie between T + 1 observations.

    Attributes:
        obs: observations, shape (T + 1, size).
        feature: e(s), shape (T + 1, features).
        action: what was executed, shape (T, actions).
        reward, cost: shape (T,).
        phi: hidden parameters φ, shape (parameters,); empty where nobody knows them.
    """

    obs: np.ndarray
    feature: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    cost: np.ndarray
    phi: np.ndarray


class States(NamedTuple):
    """Episodes of equal length in the terms of a motion.

    Attributes:
        z: states, shape (episodes, T + 1, size).
        action: shape (episodes, T, actions).
        phi: shape (episodes, parameters).
    """

    z: Any
    action: Any
    phi: Any


def states_of(motion: Motion, obs: Any, feature: Any, action: Any) -> Any:
    """Return the states of an episode, shape (T + 1, size), as following it step by step gives.

    Args:
        motion: of the robot.
        obs: shape (T + 1, observation).
        feature: e(s), shape (T + 1, features).
        action: shape (T, actions).
    """
    pose, now = motion.look(jnp.asarray(obs), jnp.asarray(feature))
    parts = [pose, now]
    # Row t of the history's k-th pair is row t − k − 1 of (now, action). Before the start the
    # robot counts as having been like this, idle.
    earlier, acted = now, jnp.concatenate([jnp.zeros_like(action[:1]), action])
    for _ in range(motion.history):
        earlier = jnp.concatenate([earlier[:1], earlier[:-1]])
        parts += [earlier, acted]
        acted = jnp.concatenate([jnp.zeros_like(acted[:1]), acted[:-1]])
    return jnp.concatenate(parts, -1)


def states_of_all(motion: Motion, episodes: Iterable[Episode]) -> States:
    """Return the states of episodes of equal length, in single precision, on the host."""
    z: list[np.ndarray] = []
    actions: list[np.ndarray] = []
    phis: list[np.ndarray] = []
    for number, episode in enumerate(episodes):
        if len({len(episode.action), *map(len, actions[:1])}) > 1:
            raise HipshieldError(
                f"Episode {number} has {len(episode.action)} steps, the first has"
                f" {len(actions[0])}: a predictor is fitted to episodes of equal length."
            )
        parts = (episode.obs, episode.feature, episode.action)
        obs, feature, action = (np.asarray(v, np.float32) for v in parts)
        z.append(np.asarray(states_of(motion, obs, feature, action)))
        actions.append(action)
        phis.append(np.asarray(episode.phi, np.float32))
    if not z:
        raise HipshieldError("There is no episode to learn from.")
    return States(np.stack(z), np.stack(actions), np.stack(phis))


def rows_of(motion: Motion, states: States) -> Rows:
    """Return every transition of the episodes, as `fit` takes them."""
    before, after = states.z[:, :-1], states.z[:, 1:]
    change = np.stack([np.asarray(motion.truth(b, a)) for b, a in zip(before, after, strict=True)])
    return Rows(np.asarray(motion.x(before)), states.action, change, states.phi)
