"""Verbs about models: collect data, fit a predictor, compare predictors."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from hipshield.lab.collect import Collection
from hipshield.models.fit import FitSettings, Progress


@dataclass(frozen=True)
class Collect:
    """Record episodes of a policy as a Minari data set."""

    collection: Annotated[Collection, tyro.conf.arg(name="")]
    """What to collect."""
    out: Path = Path("data")
    """Root of the data sets, as in MINARI_DATASETS_PATH."""
    runs: Path = Path("runs")
    """Folder that holds runs: the policy 'ppo' is trained there first, when it is missing."""

    def run(self) -> None:
        """Collect, showing how far it is."""
        from hipshield.lab.collect import collect_dataset
        from hipshield.lab.progress import CountBar

        with CountBar("collecting", self.collection.episodes, "episodes") as bar:
            facts = collect_dataset(self.collection, self.out, self.runs, bar.show)
        print(f"wrote {facts.episodes} episodes of {facts.steps} steps:"
              f" {self.out / self.collection.name} (hash {facts.hash[:12]})")  # fmt: skip


@dataclass(frozen=True)
class Fit:
    """Fit a predictor of a robot's motion to a data set."""

    task: str = "point-goal"
    """Task that the data are of."""
    model: str = "function-encoder"
    """function-encoder, transformer, ensemble or mlp."""
    oracle: bool = False
    """Tell the model the hidden parameters (ensemble and mlp)."""
    bases: int | None = None
    """Bases of a function encoder, or size of a transformer's latent: the length of b."""
    keep: float = 1.0
    """Share of the past that a function encoder keeps at each step; below 1 for physics that
    change inside an episode."""
    parameters: int | None = None
    """Number of parameters of the network, about; default: the usual function encoder's."""
    data: Path | None = None
    """Folder of the data set; default: what `hipshield collect --task TASK` writes."""
    out: Path | None = None
    """Model file; default: models/TASK_MODEL.safetensors."""
    settings: Annotated[FitSettings, tyro.conf.arg(name="")] = field(default_factory=FitSettings)
    """How to fit."""

    def run(self) -> None:
        """Fit, showing the losses."""
        from hipshield.lab.fitting import Fitting, fit_to_file, model_path
        from hipshield.lab.progress import CountBar

        wanted = Fitting(self.model, self.oracle, self.bases, self.keep, self.parameters)
        data = self.data or Path("data") / Collection(task=self.task).name
        out = self.out or model_path(Path("models"), self.task, wanted)
        with CountBar(f"fitting {self.model}", self.settings.iterations, "iterations") as bar:

            def show(p: Progress) -> None:
                bar.show(p.iteration, f"loss {p.fitting:.4g}, held out {p.validation:.4g}")

            model = fit_to_file(wanted, data, self.task, out, self.settings, show)
        unit = model.predictor.motion.unit
        table = Table("steps ahead", f"mean error, {unit}", f"98 % below, {unit}",
                      title="open-loop errors on held-out episodes")  # fmt: skip
        for lead, mean in model.facts["mean_error"].items():
            table.add_row(lead, f"{mean:.3g}", f"{model.facts['prior'][lead]:.3g}")
        Console().print(table)
        print(f"wrote {out} ({model.predictor.count} parameters)")


@dataclass(frozen=True)
class CompareModels:
    """Fit the function encoder and its rivals to the same data, and compare their errors."""

    task: str = "point-goal"
    """Task."""
    study: str = "predictors"
    """predictors (all kinds) or sizes (3, 6, 9 and 12 bases against latents)."""
    data_episodes: int = 300
    """To fit to; 100 more of each split are held out."""
    parameters: int | None = None
    """Number of parameters of each network, about; default: the usual function encoder's."""
    data: Path = Path("data")
    """Root of the data sets; missing ones are collected."""
    runs: Path = Path("runs")
    """Folder that holds runs, for the policy that collects."""
    out: Path = Path("results/models")
    """Folder for tables and figures; the task's name is added."""
    settings: Annotated[FitSettings, tyro.conf.arg(name="")] = field(default_factory=FitSettings)
    """How to fit."""

    def run(self) -> None:
        """Collect what is missing, fit, measure, write."""
        from hipshield.errors import HipshieldError, did_you_mean
        from hipshield.lab.compare_models import STUDIES, Comparison, compare, gather, ratios
        from hipshield.lab.model_figures import draw_comparison
        from hipshield.lab.model_summary import write_summary

        if self.study not in STUDIES:
            raise HipshieldError(
                f"Unknown study '{self.study}'." + did_you_mean(self.study, STUDIES)
            )
        predictors = tuple(replace(p, parameters=self.parameters) for p in STUDIES[self.study])
        collection = Collection(task=self.task, episodes=self.data_episodes)
        wanted = Comparison(self.task, predictors, collection, self.settings)
        out = self.out / self.task / self.study
        rows = compare(wanted, gather(wanted, self.data, self.runs, print), out, print)
        for row in ratios(rows):
            shares = f"{row['ratio_1']:.2f} after 1 step, {row['ratio_20']:.2f} after 20"
            print(f"function encoder ÷ {row['rival']}, {row['split']}: {shares}")
        draw_comparison(out)
        write_summary(self.out)
        print(f"wrote {out} and {self.out / 'README.md'}")
