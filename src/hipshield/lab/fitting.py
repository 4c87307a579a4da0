"""Fitting predictors to data sets: from a folder of episodes to one model file."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hipshield.errors import HipshieldError, did_you_mean
from hipshield.models.accuracy import measure_errors
from hipshield.models.catalogue import KINDS, make_predictor
from hipshield.models.data import Facts, read_dataset
from hipshield.models.episodes import States, rows_of, states_of_all
from hipshield.models.fit import FitSettings, Progress, fit, held_out
from hipshield.models.function_encoder import FunctionEncoder
from hipshield.models.motion import Motion
from hipshield.models.robots import motion_of
from hipshield.models.store import Model, save_model
from hipshield.worlds.catalogue import find_task

LEADS = (1, 2, 3, 5, 8, 13, 20, 30, 40)  # steps ahead at which held-out errors are remembered
PRIOR_LEVEL = 0.98  # quantile of them: a shield's first Γ, until it has scores of its own


@dataclass(frozen=True)
class Fitting:
    """What to fit.

    Attributes:
        kind: of the predictor.
        oracle: tell it φ (ensemble and mlp).
        bases: number k of a function encoder's bases, or size of a transformer's latent; None
            for the kind's usual.
        keep: share of the past that one step keeps, of a function encoder.
        parameters: number of the network's, about; None for that of the usual function encoder.
    """

    kind: str = "function-encoder"
    oracle: bool = False
    bases: int | None = None
    keep: float = 1.0
    parameters: int | None = None

    def __post_init__(self) -> None:
        """Check the kind; what fits together is checked where a predictor is made."""
        if self.kind not in KINDS:
            raise HipshieldError(
                f"Unknown predictor '{self.kind}'." + did_you_mean(self.kind, KINDS)
            )


def read_states(folder: Path, task: str | None, motion: Motion) -> tuple[Facts, States]:
    """Read a data set as the states of a motion."""
    facts, episodes = read_dataset(folder, task)
    return facts, states_of_all(motion, episodes)


def fit_model(
    wanted: Fitting,
    data: Path,
    task: str,
    settings: FitSettings,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Model:
    """Fit a predictor to a data set, and measure it on the episodes that were held out.

    Args:
        wanted: the predictor.
        data: folder of the data set.
        task: name of the task it must be of.
        settings: of the fit.
        show: called after each validation.
    """
    motion = motion_of(find_task(task))
    facts, states = read_states(data, task, motion)
    return fit_states(wanted, motion, states, settings, show, about=_about(facts, data))


def fit_states(
    wanted: Fitting,
    motion: Motion,
    states: States,
    settings: FitSettings,
    show: Callable[[Progress], None] = lambda progress: None,
    about: dict[str, Any] | None = None,
) -> Model:
    """Fit a predictor to episodes that are in memory already; see `fit_model`."""
    predictor = make_predictor(
        wanted.kind,
        motion,
        phi=states.phi.shape[-1] if wanted.oracle else 0,
        context=wanted.bases,
        budget=wanted.parameters,
    )
    if wanted.keep != 1:
        if not isinstance(predictor, FunctionEncoder):
            raise HipshieldError(
                f"Only a function encoder forgets: leave keep at 1 for {wanted.kind}."
            )
        predictor = replace(predictor, keep=wanted.keep)
    losses: list[Progress] = []

    def note(progress: Progress) -> None:
        losses.append(progress)
        show(progress)

    params = fit(predictor, rows_of(motion, states), settings, note)
    leads = tuple(h for h in LEADS if h <= states.action.shape[1] // 2)
    apart = States(*(v[-held_out(len(states.z), settings) :] for v in states))
    errors = measure_errors(predictor, params, apart, leads)
    learned = {
        "prior": {str(h): e for h, e in errors.quantile(PRIOR_LEVEL).items()},
        "mean_error": {str(h): e for h, e in errors.mean().items()},
        "curve": [[p.iteration, p.fitting, p.validation] for p in losses],
    }
    return Model(predictor, params, (about or {}) | learned)


def _about(facts: Facts, data: Path) -> dict[str, Any]:
    return {"task": facts.task, "data": str(data), "data_hash": facts.hash,
            "episodes": facts.episodes}  # fmt: skip


def fit_to_file(
    wanted: Fitting,
    data: Path,
    task: str,
    out: Path,
    settings: FitSettings,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Model:
    """Fit a predictor and write it; see `fit_model`."""
    if out.suffix != ".safetensors":
        raise HipshieldError(f"A model is a .safetensors file, not '{out.name}'.")
    model = fit_model(wanted, data, task, settings, show)
    save_model(out, model)
    return model


def model_path(folder: Path, task: str, wanted: Fitting) -> Path:
    """Return where a model lies when nobody says otherwise."""
    oracle = "-oracle" if wanted.oracle else ""
    return folder / f"{task}_{wanted.kind}{oracle}.safetensors"
