"""Replaying recorded trajectories: every recorded step becomes one robot of a batch.

Robot t of the batch is teleported to the recorded state before step t, takes the recorded action,
and its state after is compared with the recorded one (see `tests/parity/README.md`).
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hipshield.worlds.catalogue import find_task
from hipshield.worlds.snapshot import Snapshot
from hipshield.worlds.task import CircleObjective, PushObjective, Task
from hipshield.worlds.world import Step, World

PARITY = Path(__file__).parents[1] / "parity"
RECORDED = [
    (f"{robot}-{task}", level)
    for robot in ("point", "car")
    for task in ("goal", "button", "push", "circle")
    for level in (1, 2)
]
EPISODES = 3


@dataclass(frozen=True)
class Recording:
    """One recorded episode: its arrays without their prefix, and the file's metadata."""

    arrays: dict[str, np.ndarray]
    meta: dict

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def body(self, name: str) -> int:
        return [b["name"] for b in self.meta["model"]["bodies"]].index(name)

    @property
    def touching(self) -> np.ndarray:
        """Steps in which something besides the floor was touched, shape (steps,)."""
        floor = [c in ("agent_floor", "box_floor") for c in self.meta["contact_categories"]]
        solid = ~np.array(floor)
        during = self["substep_contacts"][:, solid].sum(1)
        ends = self["contacts"][:-1, solid].sum(1) + self["contacts"][1:, solid].sum(1)
        return during + ends > 0


def load(name: str, level: int, episode: int) -> Recording:
    stem = PARITY / f"{name.replace('-', '_')}_level{level}"
    meta = json.loads(stem.with_suffix(".json").read_text())
    with np.load(stem.with_suffix(".npz"), allow_pickle=False) as file:
        prefix = f"ep{episode}/"
        arrays = {k.removeprefix(prefix): file[k] for k in file.files if k.startswith(prefix)}
    return Recording(arrays, meta)


def recorded_task(name: str, level: int) -> Task:
    """Our task with what the recording has otherwise: Circle's level 2 has closer walls."""
    task = find_task(name, level)
    if isinstance(task.objective, CircleObjective):
        wall = {1: 1.125, 2: 1.1}[level]
        task = replace(task, objective=replace(task.objective, wall=wall))
    return task


def teleport(world: World, recording: Recording) -> Snapshot:
    """Return the snapshot in which robot t is in the recorded state before step t."""
    world.reset(seed=0)
    snapshot = world.save()
    arrays = dict(snapshot.arrays)
    n = world.robots
    for field in ("qpos", "qvel", "qacc_warmstart"):
        arrays[f"physics.{field}"] = recording[field][:n].copy()
    w, _, _, z = recording["body_quat"][recording.body("agent")]
    start = recording["body_pos"][recording.body("agent")]
    arrays["layout.robot"] = np.tile([start[0], start[1], 2 * np.arctan2(z, w)], (n, 1))
    for kind in ("hazards", "buttons", "pillars"):
        if arrays[f"layout.{kind}"].shape[1]:
            arrays[f"layout.{kind}"] = np.tile(recording[f"{kind}_pos"][None, :, :2], (n, 1, 1))
    if "goal_pos" in recording.arrays:
        arrays["layout.goal"] = recording["goal_pos"][:n, :2].copy()
    if "goal_button" in recording.arrays:
        arrays["layout.goal_button"] = recording["goal_button"][:n].astype(int)
        arrays["timer"] = recording["button_timer"][:n].astype(int)
    arrays["hidden"] = np.tile(recording["multipliers"], (n, 1))
    arrays["last"] = _last(world.task, recording, n)
    return Snapshot(snapshot.task, arrays)


def _last(task: Task, recording: Recording, n: int) -> np.ndarray:
    if isinstance(task.objective, PushObjective):
        return np.stack([recording["last_dist_box"][:n], recording["last_box_goal"][:n]], 1)
    last = np.zeros((n, 2))
    if "last_dist_goal" in recording.arrays:
        last[:, 0] = recording["last_dist_goal"][:n]
    return last


def replay(name: str, level: int, episode: int) -> tuple[World, Recording, Step]:
    recording = load(name, level, episode)
    world = World(recorded_task(name, level), robots=len(recording["action"]))
    world.load(teleport(world, recording))
    return world, recording, world.step(recording["action"])


def rotation_error(mine: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Distance of unit quaternions up to sign, shape (n,)."""
    return np.minimum(np.abs(mine - other).max(1), np.abs(mine + other).max(1))


def errors(world: World, recording: Recording, step: Step) -> dict[str, np.ndarray]:
    """Largest absolute error of each quantity, one value a step."""
    qpos, qvel = world.physics.state["qpos"], world.physics.state["qvel"]
    out = {}
    agent_q = agent_v = slice(0, qpos.shape[1])
    if isinstance(world.task.objective, PushObjective):
        agent_q, agent_v = slice(0, qpos.shape[1] - 7), slice(0, qvel.shape[1] - 6)
        out["qvel_box"] = np.abs(qvel[:, -6:] - recording["qvel"][1:, -6:]).max(1)
        out["qpos_box"] = np.maximum(
            np.abs(qpos[:, -7:-4] - recording["qpos"][1:, -7:-4]).max(1),
            rotation_error(qpos[:, -4:], recording["qpos"][1:, -4:]),
        )
    out["qpos_agent"] = np.abs(qpos[:, agent_q] - recording["qpos"][1:, agent_q]).max(1)
    out["qvel_agent"] = np.abs(qvel[:, agent_v] - recording["qvel"][1:, agent_v]).max(1)
    out["reward"] = np.abs(step.reward - recording["reward"])
    met = recording["goal_met"] > 0
    for part in recording.meta["obs_components"]:
        where = slice(part["start"], part["stop"])
        error = np.abs(step.obs[:, where] - recording["obs"][1:, where]).max(1)
        if part["name"] == "goal_lidar":
            error = np.where(met, 0.0, error)  # the next goal is random
        kind = "lidar" if part["name"].endswith("lidar") else "other"
        kind = "accelerometer" if part["name"] == "accelerometer" else kind
        key = f"obs_{kind}"
        out[key] = np.maximum(out.get(key, 0.0), error)
    return out
