"""Safety margins ν(e(s), E): how far a robot is from costing something.

The cost of a step is 1 exactly when the margin of the state after it is zero or negative (the
paper's Section 4.3, C = 1{ν(e(s'), E') ≤ 0}). A *feature* e(s) is what a margin needs of the
robot: its position (x, y), or for the half-cheetah its forward velocity (v,). A *scene* E is
what it needs of the world. Every margin is 1-Lipschitz in its feature, so L_ν = 1.

The functions work on NumPy and JAX arrays alike, with any leading axes.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from hipshield.worlds.task import CircleObjective, RunObjective, Task

LIPSCHITZ = 1.0  # L_ν of every margin here, for the Euclidean norm


class Scene(NamedTuple):
    """E: what a shield has to know of the world, besides the robot. Infinity means 'no limit'.

    Attributes:
        obstacles: centres of the hazards, shape (..., count, 2), metres.
        radius: distance to a centre that is still unsafe, shape (...,).
        wall: |x| and |y| beyond it are unsafe, shape (...,).
        speed: forward velocity above it is unsafe, shape (...,), metres per second.
    """

    obstacles: Any
    radius: Any
    wall: Any
    speed: Any


def collision(position: Any, scene: Scene) -> Any:
    """ν = min_i ‖p − X_i‖ − d. Infinite when there is no obstacle."""
    offset = scene.obstacles - position[..., None, :]
    distance = jnp.sqrt(offset[..., 0] ** 2 + offset[..., 1] ** 2)
    return distance.min(-1, initial=jnp.inf) - scene.radius


def region(position: Any, scene: Scene) -> Any:
    """ν = wall − max(|x|, |y|)."""
    return scene.wall - jnp.abs(position).max(-1)


def speed(velocity: Any, scene: Scene) -> Any:
    """ν = limit − v."""
    return scene.speed - velocity[..., 0]


def margin(feature: Any, scene: Scene) -> Any:
    """ν of all margins that apply to the feature: the least of them.

    Args:
        feature: e(s), shape (..., 2) for a position or (..., 1) for a velocity.
        scene: E, with leading axes that broadcast against the feature's.
    """
    if feature.shape[-1] == 1:
        return speed(feature, scene)
    return jnp.minimum(collision(feature, scene), region(feature, scene))


def feature_size(task: Task) -> int:
    """Return the number of values in e(s)."""
    return 1 if isinstance(task.objective, RunObjective) else 2


def make_scene(task: Task, hazards: np.ndarray) -> Scene:
    """Return the scene of a batch of robots, given their hazards, shape (robots, count, 2)."""
    robots, objective = len(hazards), task.objective
    wall = objective.wall if isinstance(objective, CircleObjective) else None
    limit = objective.velocity_limit if isinstance(objective, RunObjective) else None
    return Scene(
        obstacles=hazards,
        radius=np.full(robots, task.hazards.radius),
        wall=np.full(robots, np.inf if wall is None else wall),
        speed=np.full(robots, np.inf if limit is None else limit),
    )
