"""Data sets on disk: Minari's format, which others can load, read back as episodes.

A data set lies in `ROOT/ID/data`, as Minari lays it out, so with `MINARI_DATASETS_PATH=ROOT`
anybody's `minari.load_dataset(ID)` finds it. Per step it holds observation, action, reward, and in
`infos` cost, margin, feature e(s) and the hidden parameters φ. Its metadata name the task with its
full description, the split, policy, seed and versions, and a hash of the contents, which a fitted
model remembers.

It is written beside its place and moved there when it is complete. Reading streams episode by
episode, and refuses what is damaged, altered, of another task, or not finite, naming the place.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import h5py
import numpy as np
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

from hipshield.errors import HipshieldError
from hipshield.models.episodes import Episode
from hipshield.worlds.world import World

FORMAT = "hipshield-data-1"
_FILE, _METADATA = "main_data.hdf5", "metadata.json"
_PACKAGES = ("hipshield", "mujoco", "numpy", "minari")


class Facts(NamedTuple):
    """What is known of a data set as a whole.

    Attributes:
        task: name of the task.
        description: the task's fields, as text.
        split: where hidden parameters were drawn from.
        policy: who drove.
        seed: of the episodes.
        episodes, steps: their number, and the length of each.
        hash: of the contents.
    """

    task: str
    description: str
    split: str
    policy: str
    seed: int
    episodes: int = 0
    steps: int = 0
    hash: str = ""


def dataset_id(task: str, policy: str) -> str:
    """Return the id under which a data set is found: 'hipshield/point-goal/ppo-v0'."""
    return f"hipshield/{task}/{policy}-v0"


def write_dataset(folder: Path, name: str, facts: Facts, batches: Iterable[list[Episode]]) -> Facts:
    """Write episodes as they come; return the facts with their number and hash.

    Args:
        folder: root of the data sets.
        name: id of this one.
        facts: without counts and hash.
        batches: episodes, some at a time.

    Raises:
        HipshieldError: there is a data set of that name already, or no episode came.
    """
    place = folder / name
    if (place / "data" / _METADATA).exists():
        raise HipshieldError(
            f"There is a data set at '{place}' already: remove it, or choose another --name."
        )
    part = place.with_name(place.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "data").mkdir(parents=True)
    storage, digest, count, steps = None, hashlib.sha256(), 0, 0
    for batch in batches:
        storage = storage or _new_storage(part / "data", name, batch[0])
        storage.update_episodes(_buffer(episode) for episode in batch)
        for episode in batch:
            _include(digest, episode)
        count, steps = count + len(batch), len(batch[0].action)
    if storage is None:
        shutil.rmtree(part)
        raise HipshieldError("A data set needs at least one episode.")
    facts = facts._replace(episodes=count, steps=steps, hash=digest.hexdigest())
    versions = {p: version(p) for p in _PACKAGES}
    about = {"format": FORMAT, "versions": versions, **facts._asdict()}
    storage.update_metadata({"hipshield": about, "algorithm_name": facts.policy})
    shutil.rmtree(place, ignore_errors=True)  # what an older, unfinished try may have left
    os.replace(part, place)
    return facts


def read_facts(folder: str | Path) -> Facts:
    """Read what is known of a data set.

    Raises:
        HipshieldError: there is none, or it was not written by `write_dataset`.
    """
    path = Path(folder) / "data" / _METADATA
    try:
        about = json.loads(path.read_text(encoding="utf-8"))["hipshield"]
        if about["format"] != FORMAT:
            raise HipshieldError(f"'{path}' has format {about['format']}, this reads {FORMAT}.")
        return Facts(**{name: about[name] for name in Facts._fields})
    except FileNotFoundError:
        raise HipshieldError(
            f"There is no data set at '{folder}': make one with `hipshield collect`."
        ) from None
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError):
        raise HipshieldError(f"'{path}' does not describe a data set of hipshield's.") from None


def read_dataset(folder: str | Path, task: str | None = None) -> tuple[Facts, Iterator[Episode]]:
    """Return a data set's facts and its episodes, which are read as they are asked for.

    Args:
        folder: `ROOT/ID`.
        task: name of the task that the data must be of; None takes any.

    Raises:
        HipshieldError: it is missing, empty, of another task; or, while its episodes are read,
            truncated, altered, or not finite: the message names file, episode and step.
    """
    facts = read_facts(folder)
    path = Path(folder) / "data" / _FILE
    if task is not None and facts.task != task:
        raise HipshieldError(f"'{folder}' holds data of task '{facts.task}', not of '{task}'.")
    if facts.episodes < 1:
        raise HipshieldError(f"'{folder}' holds no episode.")
    return facts, _episodes(path, facts)


def _episodes(path: Path, facts: Facts) -> Iterator[Episode]:
    digest = hashlib.sha256()
    try:
        with h5py.File(path, "r") as file:
            for number in range(facts.episodes):
                episode = _read_episode(file[f"episode_{number}"])
                _check_finite(path, number, episode)
                _include(digest, episode)
                yield episode
    except (KeyError, OSError, ValueError) as error:
        if isinstance(error, HipshieldError):
            raise
        raise HipshieldError(f"'{path}' is damaged or incomplete: {error}") from None
    if digest.hexdigest() != facts.hash:
        raise HipshieldError(
            f"'{path}' was altered after it was collected: its contents do not have the hash that"
            " its metadata give. Collect it again."
        )


def _read_episode(group: Any) -> Episode:
    infos = group["infos"]
    return Episode(
        obs=group["observations"][()],
        feature=infos["feature"][()],
        action=group["actions"][()],
        reward=group["rewards"][()],
        cost=infos["cost"][1:],
        phi=infos["hidden_parameters"][0],
    )


def _check_finite(path: Path, number: int, episode: Episode) -> None:
    """Refuse numbers that are not finite: a predictor would learn nothing from then on."""
    for name in ("obs", "feature", "action", "phi"):
        good = np.isfinite(np.atleast_2d(getattr(episode, name))).all(-1)
        if not good.all():
            raise HipshieldError(
                f"'{path}', episode {number}, row {int(np.argmin(good))}: {name} is not finite."
            )


def _include(digest: Any, episode: Episode) -> None:
    for value in episode:
        digest.update(np.ascontiguousarray(value).data)


def _new_storage(folder: Path, name: str, episode: Episode) -> MinariStorage:
    def box(values: np.ndarray, bound: float) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-bound, bound, values.shape[1:], values.dtype.type)

    storage = MinariStorage.new(
        folder.resolve(),  # of a relative path Minari cannot tell the size
        observation_space=box(episode.obs, np.inf),
        action_space=box(episode.action, 1.0),
        data_format="hdf5",
    )
    about = {"dataset_id": name, "minari_version": version("minari"), "author": {"hipshield"}}
    storage.update_metadata(about)
    return storage


def _buffer(episode: Episode) -> EpisodeBuffer:
    steps = len(episode.action)
    first = np.zeros(1, episode.cost.dtype)
    end = np.arange(steps) == steps - 1
    return EpisodeBuffer(
        observations=episode.obs,
        actions=episode.action,
        rewards=episode.reward,
        terminations=np.zeros(steps, bool),
        truncations=end,
        infos={
            "cost": np.concatenate([first, episode.cost]),
            "feature": episode.feature,
            "hidden_parameters": np.tile(episode.phi, (steps + 1, 1)),
        },
    )


def record(world: World, policy: Callable[[World], np.ndarray]) -> list[Episode]:
    """Run one episode with every robot of a world that was just reset.

    Args:
        world: its robots' time begins.
        policy: world ↦ actions, shape (robots, actions); they are clipped to [−1, 1].

    Returns:
        What there is to learn from, one episode a robot, in single precision.
    """
    now = world.last
    obs, feature = [now.obs.astype(np.float32)], [now.feature.astype(np.float32)]
    action, reward, cost = [], [], []
    phi = world.hidden.astype(np.float32)
    for _ in range(world.task.episode_steps):
        action.append(np.clip(policy(world), -1.0, 1.0).astype(np.float32))
        now = world.step(action[-1])
        obs.append(now.obs.astype(np.float32))
        feature.append(now.feature.astype(np.float32))
        reward.append(now.reward.astype(np.float32))
        cost.append(now.cost.astype(np.float32))
    columns = [np.stack(values, 1) for values in (obs, feature, action, reward, cost)]
    return [Episode(*row) for row in zip(*columns, phi, strict=True)]
