"""Draw the plot for `tools/bench.py --plot`: ratios in several columns, with one line per operator."""

from __future__ import annotations

import io
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

LINES = 60  # operators per column

DTYPES = {"f32": "#1f5fa8", "f16": "#3f9a3a", "bf16": "#d9801c", "i64": "#7d4bb0", "i8": "#555555"}


class Row(Protocol):
    """The fields of a measurement that the plot needs."""

    section: str
    name: str
    dtype: str
    ratio: float


def plot(rows: Sequence[Row], path: str, bar: float, other: str = "the CPU") -> None:
    """Write a PNG with one dot per measurement, a black tick at each operator's geometric mean, and a red background
    above `bar`."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    lines = defaultdict(list)
    for row in rows:
        lines[row.name + " memory" * (row.section == "memory")].append(row)
    names = list(lines)
    columns = math.ceil(len(names) / LINES)
    tallest = min(LINES, len(names))
    ends = min(0.5, *(row.ratio for row in rows)) / 1.2, max(1.2 * bar, *(row.ratio for row in rows)) * 1.05
    figure, grid = plt.subplots(
        1, columns, figsize=(4.4 * columns, 1.2 + 0.19 * tallest), sharex=True, squeeze=False, layout="constrained"
    )
    for column, axes in enumerate(grid[0]):
        here = names[column * LINES : (column + 1) * LINES]
        dots = [(row, y) for y, name in enumerate(here) for row in lines[name]]
        axes.axvspan(bar, ends[1], color="#f6d5d5", linewidth=0)
        axes.axvline(1.0, color="black", linewidth=0.8)
        for dtype, color in DTYPES.items():
            chosen = [(row.ratio, y) for row, y in dots if row.dtype == dtype]
            axes.scatter([ratio for ratio, _ in chosen], [y for _, y in chosen],
                         s=5, color=color, linewidths=0, label=dtype)  # fmt: skip
        means = [math.exp(statistics.mean(math.log(row.ratio) for row in lines[name])) for name in here]
        axes.scatter(means, range(len(here)), marker="|", s=60, color="black", linewidths=1.5, label="mean")
        axes.set_xscale("log")
        axes.set_xlim(ends)
        axes.set_yticks(range(len(here)), here, fontsize=7)
        axes.set_ylim(tallest - 0.3, -0.7)
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.5)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(f"time of mpsx / time of {other}: left of 1 mpsx is faster, red is over {bar}", fontsize=10)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper left", ncols=len(DTYPES) + 1, fontsize=9,
                  markerscale=2)  # fmt: skip
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=80)
    plt.close(figure)
    # Reduce the number of colors to save file size.
    Image.open(drawn).convert("RGB").quantize(128, Image.Quantize.FASTOCTREE).save(path, optimize=True)
