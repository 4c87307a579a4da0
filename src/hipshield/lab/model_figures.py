"""Figures of a comparison of predictors, drawn from its tables alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from hipshield.lab.tables import Row, read_table

# Okabe and Ito's palette: told apart by colour-blind readers, too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
SPLIT_NAMES = {"train": "in distribution", "ood": "out of distribution"}


def draw_comparison(folder: Path) -> list[Path]:
    """Draw `errors.png`, `adapting.png` and `curves.png` beside the tables; return their paths."""
    figures: dict[str, tuple[Callable[[Any, list[Row]], None], int]] = {
        "errors": (_draw_errors, 2),
        "adapting": (_draw_adapting, 2),
        "curves": (_draw_curves, 1),
    }
    made = []
    for name, (draw, width) in figures.items():
        if not (folder / f"{name}.csv").exists():
            continue
        figure, axes = plt.subplots(
            1, width, figsize=(5.2 * width, 3.8), layout="constrained", squeeze=False
        )
        draw(axes[0], read_table(folder / f"{name}.csv"))
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=110, metadata={"Software": None})
        plt.close(figure)
        made.append(path)
    return made


def _names(rows: list[Row]) -> dict[str, str]:
    """Return a colour for each predictor, in the table's order."""
    names = list(dict.fromkeys(r["predictor"] for r in rows))
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}


def _leads(row: Row) -> list[int]:
    return [int(k.removeprefix("mean_")) for k in row if k.startswith("mean_")]


def _draw_errors(axes: Any, rows: list[Row]) -> None:
    """Mean error against lead (line) and 98th percentile (dots), a panel each split."""
    for ax, split in zip(axes, SPLIT_NAMES, strict=True):
        for name, colour in _names(rows).items():
            row = next(r for r in rows if (r["predictor"], r["split"]) == (name, split))
            leads = _leads(row)
            ax.plot(leads, [row[f"mean_{h}"] for h in leads], "-o", ms=3, color=colour, label=name)
            ax.plot(leads, [row[f"p98_{h}"] for h in leads], ".", ms=4, alpha=0.5, color=colour)
        _log(ax, f"{rows[0]['task']}, {SPLIT_NAMES[split]}", "steps ahead", "error of e(s)")
    axes[0].legend(fontsize=8, title="line: mean; dots: 98 % are below", title_fontsize=8)


def _draw_adapting(axes: Any, rows: list[Row]) -> None:
    """Error against the number of transitions, with hindsight as a dashed line."""
    lead = _leads(rows[0])[-1]
    for ax, split in zip(axes, SPLIT_NAMES, strict=True):
        for name, colour in _names(rows).items():
            mine = [r for r in rows if (r["predictor"], r["split"]) == (name, split)]
            numbers = [r for r in mine if r["transitions"] != "hindsight"]
            n = np.array([r["transitions"] for r in numbers], float)
            ax.plot(np.maximum(n, 0.5), [r[f"mean_{lead}"] for r in numbers], "-o", ms=3,
                    color=colour, label=name)  # fmt: skip
            best = next(r for r in mine if r["transitions"] == "hindsight")
            ax.axhline(best[f"mean_{lead}"], ls="--", lw=0.8, color=colour)
        title = f"{rows[0]['task']}, {SPLIT_NAMES[split]}"
        _log(ax, title, "transitions of a new robot", f"mean error after {lead} steps")
    axes[0].legend(fontsize=8, title="dashed: in hindsight", title_fontsize=8)


def _draw_curves(axes: Any, rows: list[Row]) -> None:
    """Held-out loss while fitting."""
    for name, colour in _names(rows).items():
        mine = [r for r in rows if r["predictor"] == name]
        axes[0].plot([r["iteration"] for r in mine], [r["validation"] for r in mine],
                     color=colour, label=name)  # fmt: skip
    axes[0].set_xlabel("iterations")
    axes[0].set_ylabel("held-out loss")
    axes[0].set_title(f"{rows[0]['task']}: fitting", fontsize=10)
    # A probabilistic ensemble's loss is a log-likelihood, which may be negative.
    axes[0].set_yscale("symlog", linthresh=1e-3)
    axes[0].grid(alpha=0.3, which="both", lw=0.4)
    axes[0].legend(fontsize=8)


def _log(ax: Axes, title: str, x: str, y: str) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(alpha=0.3, which="both", lw=0.4)
