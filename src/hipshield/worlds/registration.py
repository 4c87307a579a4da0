"""Registration of every task with Gymnasium. Importing `hipshield` does it.

Kept apart from the environments, so that the import stays light: MuJoCo and JAX are loaded when
the first environment is made.
"""

import gymnasium

from hipshield.worlds.catalogue import LEVELS, TASK_NAMES, find_task, gymnasium_id


def register_all() -> None:
    """Make `gymnasium.make` and `gymnasium.make_vec` know all tasks, once."""
    for name in TASK_NAMES:
        for level in LEVELS:
            env_id = gymnasium_id(name, level)
            if env_id not in gymnasium.registry:
                gymnasium.register(
                    env_id,
                    entry_point="hipshield.worlds.gym_api:SingleEnv",
                    vector_entry_point="hipshield.worlds.gym_api:BatchedEnv",
                    kwargs={"task": find_task(name, level).name},
                )
