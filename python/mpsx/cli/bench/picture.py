"""The chart: speedup over the CPU for each model, in training and in evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from ..demo.picture import FAINT, INK, STYLE
from .models import TITLES

COLORS = ("#3b6fd4", "#e59d2c", "#4aa564")


def draw(results: dict[str, Any], path: Path) -> None:
    """Write the chart of `results`, which main.py produces."""
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(1, 2, figsize=(10.5, 5.2), dpi=130, facecolor="white")
        figure.subplots_adjust(left=0.06, right=0.98, top=0.74, bottom=0.14, wspace=0.18)
        for axes, phase in zip(panels, ("training", "evaluation"), strict=True):
            _panel(axes, results, phase)
        figure.text(0.025, 0.94, "Speedup over the CPU", fontsize=16, fontweight="bold", va="center")
        figure.text(0.025, 0.885, results["machine"], fontsize=9.5, color=FAINT, va="center")
        figure.text(0.025, 0.845, results["caption"], fontsize=9.5, color=FAINT, va="center")
        counts = sorted({len(times) for times in results["seconds"].values()})
        steps = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        note = (f"Medians of {steps} steps; lines show the fastest and the slowest step. The CPU runs PyTorch in a "
                "process that never loads mpsx.")  # fmt: skip
        figure.text(0.025, 0.03, note, fontsize=8.5, color=FAINT)
        figure.savefig(path)
        plt.close(figure)


def _panel(axes: Axes, results: dict[str, Any], phase: str) -> None:
    models, devices = results["models"], results["devices"]
    width = 0.7 / len(devices)
    highest = 1.0
    for d, device in enumerate(devices):
        for m, model in enumerate(models):
            cell = results["speedups"][f"{model} {phase} {device}"]
            middle, low, high = cell["median"], cell["low"], cell["high"]
            at = m + (d - (len(devices) - 1) / 2) * width
            axes.bar(at, middle, 0.92 * width, color=COLORS[d % len(COLORS)],
                     label=results["names"][device] if m == 0 else None)  # fmt: skip
            axes.plot([at, at], [low, high], color=INK, linewidth=1)
            text = f"{middle:.1f}" if middle >= 10 else f"{middle:.2f}"
            axes.text(at, high, text, ha="center", va="bottom", fontsize=9, color=INK)
            highest = max(highest, high)
    axes.axhline(1, color=INK, linewidth=1, dashes=(4, 3))
    axes.text(len(models) - 0.45, 1, " CPU", ha="right", va="bottom", fontsize=8.5, color=FAINT)
    axes.set_xticks(range(len(models)), [f"{TITLES[m]}\nbatch {results['batches'][m]}" for m in models])
    axes.tick_params(axis="x", length=0, labelcolor=INK)
    axes.set_ylim(0, 1.18 * highest)
    axes.set_xlim(-0.5, len(models) - 0.45)
    axes.set_title(phase.capitalize())
    axes.grid(axis="y", color="#eceef2")
    axes.set_axisbelow(True)
    if phase == "training":
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.2, 1.0), ncols=len(devices), fontsize=9,
                    borderaxespad=0.15)  # fmt: skip
