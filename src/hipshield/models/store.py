"""Fitted models as files: one safetensors file holds sizes, parameters and where they came from."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from hipshield.errors import HipshieldError
from hipshield.files import read_arrays, write_arrays
from hipshield.models.ensemble import Ensemble
from hipshield.models.function_encoder import FunctionEncoder
from hipshield.models.motion import Motion
from hipshield.models.perceptron import MlpPredictor
from hipshield.models.predictor import Predictor, Scale
from hipshield.models.robots import motion_of_robot
from hipshield.models.transformer import Transformer

FORMAT = "hipshield-model-1"
CLASSES: dict[str, Any] = {
    kind.kind: kind for kind in (FunctionEncoder, Transformer, Ensemble, MlpPredictor)
}


class Model(NamedTuple):
    """A fitted predictor.

    Attributes:
        predictor: its kind and sizes.
        params: what it learned.
        facts: where it came from: task, data set's hash, settings of the fit, errors.
    """

    predictor: Any
    params: Any
    facts: dict[str, Any]

    @property
    def prior(self) -> dict[int, float]:
        """Return 98th percentiles of the held-out error by lead, a shield's first Γ."""
        return {int(lead): float(e) for lead, e in self.facts.get("prior", {}).items()}


def save_model(path: str | Path, model: Model) -> None:
    """Write a model, all of it or none of it."""
    predictor, path = model.predictor, Path(path)
    sizes = {
        f.name: getattr(predictor, f.name)
        for f in dataclasses.fields(predictor)
        if f.name != "motion"
    }
    motion = predictor.motion
    facts = model.facts | {
        "format": FORMAT,
        "kind": predictor.kind,
        "sizes": sizes,
        "motion": [motion.name, motion.history],
        "parameters": len(np.ravel(model.params.scale.phi_mean)),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_arrays(path, _named(model.params), facts)


def load_model(path: str | Path, motion: Motion | None = None) -> Model:
    """Read a model.

    Args:
        path: its file.
        motion: of a robot that is not this library's own.

    Raises:
        HipshieldError: the file is missing, damaged, or something else, or it is the model of
            another robot.
    """
    arrays, facts = read_arrays(Path(path), "model")
    if facts.get("format") != FORMAT or facts.get("kind") not in CLASSES:
        raise HipshieldError(f"'{path}' is not a model that this version can read.")
    name, history = facts["motion"]
    motion = motion or motion_of_robot(name, history)
    if (motion.name, motion.history) != (name, history):
        raise HipshieldError(
            f"'{path}' is a model of robot '{name}' with {history} steps of history, not of"
            f" '{motion.name}' with {motion.history}."
        )
    sizes = {k: tuple(v) if isinstance(v, list) else v for k, v in facts["sizes"].items()}
    predictor = CLASSES[facts["kind"]](motion, **sizes)
    like = jax.eval_shape(predictor.init, jax.random.key(0), _scale_like(motion, facts))
    wanted = _named(like)
    for key, value in wanted.items():
        mine = arrays.get(key)
        if mine is None or mine.shape != value.shape or not np.isfinite(mine).all():
            raise HipshieldError(f"'{path}' does not hold the parameters that it names ({key}).")
    leaves = [arrays[key] for key in wanted]
    return Model(predictor, jax.tree.unflatten(jax.tree.structure(like), leaves), facts)


def fingerprint(predictor: Predictor, params: Any) -> str:
    """Return what tells two models apart: a hash of kind, sizes and parameters."""
    digest = hashlib.sha256(predictor.kind.encode())
    for key, value in _named(params).items():
        digest.update(key.encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


def _scale_like(motion: Motion, facts: dict[str, Any]) -> Scale:
    sizes = (motion.inputs, motion.outputs, int(facts["parameters"]))
    return Scale(*(np.zeros(n, np.float32) for n in sizes for _ in range(2)))


def _named(params: Any) -> dict[str, Any]:
    """Return the arrays (or their shapes) of a pytree by what leads to them: 'scale.x_mean'."""
    flat, _ = jax.tree_util.tree_flatten_with_path(params)

    def word(step: Any) -> str:
        return str(next(getattr(step, n) for n in ("name", "key", "idx") if hasattr(step, n)))

    def plain(leaf: Any) -> Any:
        return leaf if isinstance(leaf, jax.ShapeDtypeStruct) else np.asarray(leaf)

    return {".".join(map(word, path)): plain(leaf) for path, leaf in flat}
