"""The files of a run: written whole or not at all, and checked when they are read.

A run's folder holds `config.json`, `progress.csv` (one row an epoch, the same bits for the same
configuration), `timing.csv` (what the machine took), TensorBoard events, `state.safetensors`, the
last checkpoint, and `model.safetensors`, the predictor behind the context `encoder` or a shield.
While an off-policy run goes on, `replay/` has one file for each epoch that its updates still draw
from. Nothing is pickled.
"""

import contextlib
import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hipshield.errors import HipshieldError
from hipshield.files import read_arrays, write_arrays, write_whole
from hipshield.learning.config import VERSION, TrainConfig
from hipshield.learning.state import Batch
from hipshield.models.store import Model, fingerprint, load_model

CONFIG, STATE, PROGRESS = "config.json", "state.safetensors", "progress.csv"
REPLAY, MODEL = "replay", "model.safetensors"
_FORMAT = f"hipshield-train-{VERSION}"


def write_state(folder: Path, config: TrainConfig, state: Any) -> None:
    """Write a checkpoint."""
    leaves = jax.tree.leaves(state)
    arrays = {f"leaf{i:03d}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    facts = {"format": _FORMAT, "config": config.hash, "epoch": int(state.epoch)}
    write_arrays(folder / STATE, arrays, facts)


def read_state(folder: Path, config: TrainConfig, like: Any) -> Any:
    """Read a checkpoint of this very configuration.

    Args:
        folder: of the run.
        config: the run's configuration.
        like: any state of the right shapes.

    Raises:
        HipshieldError: it is missing, damaged, or of another run.
    """
    path = folder / STATE
    arrays, meta = read_arrays(path)
    if meta.get("format") != _FORMAT:
        raise HipshieldError(f"'{path}' is not a checkpoint that this version can read.")
    if meta.get("config") != config.hash:
        raise HipshieldError(
            f"'{path}' belongs to another configuration than '{folder / CONFIG}'."
            " Start a new run in a folder of its own."
        )
    leaves, shape = jax.tree.flatten(like)
    read = [arrays.get(f"leaf{i:03d}") for i in range(len(leaves))]
    for mine, theirs in zip(leaves, read, strict=True):
        if theirs is None or theirs.shape != mine.shape or theirs.dtype != mine.dtype:
            raise HipshieldError(f"'{path}' does not hold the parameters of this run.")
        if not np.isfinite(theirs).all():
            raise HipshieldError(f"'{path}' holds parameters that are not finite numbers.")
    return jax.tree.unflatten(shape, [jax.numpy.asarray(a) for a in read])


def write_batch(folder: Path, config: TrainConfig, epoch: int, batch: Batch) -> None:
    """Write an epoch's experience; it is never changed, only removed (`keep_batches`)."""
    (folder / REPLAY).mkdir(exist_ok=True)
    facts = {"format": _FORMAT, "config": config.hash, "epoch": epoch}
    write_arrays(_batch_path(folder, epoch), batch._asdict(), facts)


def read_batch(folder: Path, config: TrainConfig, epoch: int) -> Batch:
    """Read an epoch's experience.

    Raises:
        HipshieldError: it is missing, damaged, or of another run.
    """
    path = _batch_path(folder, epoch)
    try:
        arrays, meta = read_arrays(path, what="replay")
    except HipshieldError as error:
        raise HipshieldError(f"{error} The run cannot go on without: start it anew.") from None
    wanted = {"format": _FORMAT, "config": config.hash, "epoch": epoch}
    if meta != wanted or set(arrays) != set(Batch._fields):
        raise HipshieldError(f"'{path}' is not epoch {epoch} of this run: start it anew.")
    return Batch(**arrays)


def keep_batches(folder: Path, epochs: range) -> None:
    """Remove the experience of all but some epochs, and what a kill left half written."""
    kept = {_batch_path(folder, epoch) for epoch in epochs}
    for path in (folder / REPLAY).glob("*.safetensors*"):
        if path not in kept:
            path.unlink(missing_ok=True)
    if not kept:
        with contextlib.suppress(OSError):
            (folder / REPLAY).rmdir()


def _batch_path(folder: Path, epoch: int) -> Path:
    return folder / REPLAY / f"{epoch:05d}.safetensors"


def read_config(folder: Path) -> TrainConfig:
    """Read a run's configuration."""
    path = folder / CONFIG
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise HipshieldError(f"'{folder}' is not a run: it has no {CONFIG}.") from None
    return TrainConfig.from_json(text, where=f"'{path}'")


def keep_model(folder: Path, config: TrainConfig) -> Model | None:
    """Copy the model that a run needs into its folder, and read it.

    A run is whole by itself: what it was trained with stays what it was, wherever it is taken.

    Raises:
        HipshieldError: there is no such model, it is another robot's, or the run was begun with
            another one.
    """
    if not config.model:
        return None
    mine, source = folder / MODEL, Path(config.model)
    if mine.exists() and not source.exists():
        return read_model(folder, config)
    model = load_model(source)
    robot = config.find_task().robot
    if model.predictor.motion.name != robot:
        raise HipshieldError(
            f"'{source}' is a model of robot '{model.predictor.motion.name}', and"
            f" {config.task} is about '{robot}'."
        )
    if mine.exists():
        begun = load_model(mine)
        if fingerprint(*begun[:2]) != fingerprint(*model[:2]):
            raise HipshieldError(
                f"'{folder}' was begun with another model than '{source}' is now: use --out."
            )
        return begun
    write_whole(mine, source.read_bytes())
    return model


def read_model(folder: Path, config: TrainConfig) -> Model | None:
    """Read the model that a run keeps, if its context or its shield needs one."""
    return load_model(folder / MODEL) if config.model else None


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a table of rows with equal columns as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV table, or nothing where there is none."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep two processes from training in one folder.

    The lock names its process: one that a killed process left behind does not count.
    """
    path, owner = folder / "lock.json", os.getpid()
    with contextlib.suppress(ValueError, KeyError, TypeError, OSError):
        owner = int(json.loads(path.read_text())["process"])
    # Outside of that block: a HipshieldError is a ValueError.
    if owner != os.getpid() and Path(f"/proc/{owner}").exists():
        raise HipshieldError(f"Process {owner} is training in '{folder}' already.")
    write_whole(path, json.dumps({"process": os.getpid()}).encode())
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
