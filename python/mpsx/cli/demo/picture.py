"""The demo's picture: the loss curves, their difference, and a time profile."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import torch

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from ... import __version__
from .training import Race

COLORS = {"native": "#3b6fd4", "vendor": "#e59d2c", "fallback": "#c8372d", "outside": "#b9bec7"}
LABELS = {
    "native": "native: Metal kernels",
    "vendor": "vendor: CPU libraries",
    "fallback": "fallback to the CPU",
    "outside": "Python, autograd, dispatch, data",
}
INK, FAINT = "#1d2430", "#6b7280"
BARS = 14
STYLE = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": FAINT,
    "axes.edgecolor": "#c9ced6",
    "xtick.color": FAINT,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
}


def draw(race: Race, device: str, dtype: str, path: Path) -> None:
    """Write the picture."""
    profiled = bool(race.profile)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(12.5 if profiled else 7, 6.4), dpi=130, facecolor="white")
        columns = figure.add_gridspec(
            1, 2 if profiled else 1, width_ratios=(1, 0.92) if profiled else (1,),
            left=0.06, right=0.975, top=0.80, bottom=0.09, wspace=0.6,
        )  # fmt: skip
        left = columns[0].subgridspec(2, 1, height_ratios=(2.6, 1), hspace=0.42)
        losses = figure.add_subplot(left[0] if race.other else columns[0])
        _draw_losses(losses, race)
        if race.other:
            _draw_difference(figure.add_subplot(left[1], sharex=losses), race)
        if profiled:
            _draw_profile(figure.add_subplot(columns[1]), race)
        edge = 0.025
        figure.text(edge, 0.945, race.run.task.title, fontsize=16, fontweight="bold", va="center")
        versions = f"mpsx {__version__}, torch {torch.__version__}"
        figure.text(edge, 0.895, f"{device}; {dtype}; {versions}", fontsize=9.5, color=FAINT, va="center")
        figure.savefig(path)
        plt.close(figure)


def _smooth(values: list[float], width: int) -> list[float]:
    """Return the moving average over the last `width` values."""
    return [sum(values[max(0, i + 1 - width) : i + 1]) / min(i + 1, width) for i in range(len(values))]


def _draw_losses(axes: Axes, race: Race) -> None:
    runs = [race.run] + ([race.other] if race.other else [])
    width = max(1, len(race.run.losses) // 30)
    styles = (
        {"color": COLORS["native"], "linewidth": 3.2, "alpha": 0.55},
        {"color": INK, "linewidth": 1.1, "dashes": (4, 2)},
    )
    axes.plot(race.run.losses, color=COLORS["native"], linewidth=0.7, alpha=0.35)
    for run, style in zip(runs, styles, strict=False):
        label = f"{run.device.type}: {run.task.score_name} {run.score}, {run.step_time * 1e3:.1f} ms per step"
        axes.plot(_smooth(run.losses, width), label=label, **style)
    axes.set_title("Loss" if width == 1 else f"Loss: mean of the last {width} steps (thin: every step)")
    axes.set_xlim(0, max(1, len(race.run.losses) - 1))
    if max(race.run.losses) > 20 * min(race.run.losses) > 0:
        axes.set_yscale("log")
    axes.set_xlabel("" if race.other else "step")
    axes.legend(frameon=False, loc="upper right")
    axes.grid(axis="y", color="#eceef2")
    axes.set_axisbelow(True)


def _draw_difference(axes: Axes, race: Race) -> None:
    assert race.other is not None
    differences = [abs(a - b) for a, b in zip(race.run.losses, race.other.losses, strict=True)]
    axes.semilogy([d if d > 0 else float("nan") for d in differences], ".", color=COLORS["native"], markersize=2.5)
    axes.margins(y=0.12)
    axes.set_title(f"|loss on {race.run.device.type} - loss on CPU|: at most {race.difference:.1g}")
    equal = sum(d == 0 for d in differences)
    axes.set_xlabel(f"step (no point for {equal} steps with equal losses)" if equal else "step")
    axes.grid(axis="y", color="#eceef2")
    axes.set_axisbelow(True)


def bars(race: Race) -> list[tuple[str, str, float]]:
    """Return (name, route, ms per step) for each bar: the slowest kernels and operators, the sum of all others per
    route, and the time outside kernels."""
    steps = len(race.run.losses)
    result = [(_plain(row.name), row.route, row.seconds / steps * 1e3) for row in race.profile[:BARS]]
    for route in ("native", "vendor", "fallback"):
        rest = [row for row in race.profile[BARS:] if row.route == route]
        if rest:
            result.append((f"{len(rest)} more", route, sum(row.seconds for row in rest) / steps * 1e3))
    total = sum(race.run.seconds) / steps * 1e3
    result.append(("outside kernels", "outside", max(0.0, total - sum(ms for _, _, ms in result))))
    return result


def _plain(name: str) -> str:
    """Strip the namespace and overload from an operator's name."""
    return name.removeprefix("aten::").split(".", maxsplit=1)[0]


def _draw_profile(axes: Axes, race: Race) -> None:
    rows = bars(race)
    total = sum(ms for _, _, ms in rows)
    positions = range(len(rows))
    axes.barh(positions, [ms for _, _, ms in rows], color=[COLORS[route] for _, route, _ in rows], height=0.72)
    for y, (_, _, ms) in enumerate(rows):
        axes.text(ms + 0.008 * total, y, f"{ms:.2f}", va="center", fontsize=8.5, color=FAINT)
    axes.set_yticks(positions, [name for name, _, _ in rows], fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(0, max(ms for _, _, ms in rows) * 1.12)
    axes.set_xlabel("milliseconds per step")
    axes.set_title(f"{total:.1f} ms per step on {race.run.device.type}")
    sums = {route: sum(ms for _, r, ms in rows if r == route) for route in COLORS}
    keys = [
        Patch(
            color=color,
            label=f"{LABELS[route]}, {sums[route] / total:.0%}" if sums[route] else f"{LABELS[route]}: none",
        )
        for route, color in COLORS.items()
    ]
    axes.legend(handles=keys, frameon=False, loc="center right", bbox_to_anchor=(1, 0.42), fontsize=9)
    if sums["vendor"] > sums["native"]:
        note = "Most of the kernel time is spent in CPU libraries.\nMPSX_VENDOR=off runs Metal kernels instead."
        axes.text(1, 0.24, note, transform=axes.transAxes, ha="right", va="top", fontsize=8.5, color=FAINT)
