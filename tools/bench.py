#!/usr/bin/env python3
"""Times operators and training steps on mpsx and on the CPU, interleaved in one process.

    python tools/bench.py                          everything, as a table (about ten minutes)
    python tools/bench.py --only softmax --only layer_norm
    python tools/bench.py --section overhead       microseconds a call on ten elements
    python tools/bench.py --section training --json steps.json
    python tools/bench.py --section breadth --sizes 1e5 --threads 1        250 operators more, in one layout
    python tools/bench.py --section models --only resnet50 --threads 2     published sizes, two minutes a model
    python tools/bench.py --section memory --only bert                     peak memory of a process a device, in KiB
    python tools/bench.py --sizes 1e5 --dtypes f32 bf16 --threads 1 --csv ops.csv --plot ops.png
    MPSX_DRIVER=cuda python tools/bench.py --against cuda                  on an NVIDIA GPU (bench_gpu.py), four minutes
    MPSX_DRIVER=cuda python tools/bench.py --against cuda --section models     models there (bench_gpu_models.py)

A ratio is mpsx's time over the CPU's: below 1 mpsx is faster. Both take turns in short rounds, so that a busy machine
slows both alike; the figure is the median round. A row over 1.3 is measured again in five times as many rounds, and the
second figure counts: of thousands of rows some are over it by chance.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

import bench_gpu
import bench_gpu_models
import torch
from bench_breadth import BREADTH
from bench_cases import DTYPES, LAYOUTS, OPS, OVERHEAD, TRAINING, Run, backward, matrix
from bench_models import models, peak
from bench_plot import plot
from bench_worker import write_csv

import mpsx

Clock = Callable[[], float]
MODELS = ["resnet50", "vgg16", "bert"]
ROUND_SECONDS = 0.004  # what a round of one device takes, where one call does not take longer
BAR, AGAIN = 1.3, 5  # a ratio that is measured again, and in how many times the rounds


@dataclass(frozen=True)
class Row:
    """One measurement; times in microseconds a call."""

    section: str
    name: str
    dtype: str
    size: int
    layout: str
    threads: int
    cpu: float
    mpsx: float

    @property
    def ratio(self) -> float:
        """Below 1: mpsx is faster."""
        return self.mpsx / self.cpu


# Timing.


def timed(run: Run, count: int, device: str, clock: Clock) -> float:
    """Microseconds a call, over `count` calls."""
    start = clock()
    for _ in range(count):
        run()
    if device == "mpsx":
        torch.mpsx.synchronize()
    return (clock() - start) / count * 1e6


def compare(make: Callable[[str], Run], rounds: int, clock: Clock) -> tuple[float, float]:
    """Median microseconds a call on the CPU and on mpsx, in turns."""
    devices = ("cpu", "mpsx")
    runs = {device: make(device) for device in devices}
    first = {device: timed(run, 1, device, clock) for device, run in runs.items()}
    first = {device: max(0.1, min(first[device], timed(run, 1, device, clock))) for device, run in runs.items()}
    counts = {device: max(1, min(5000, int(ROUND_SECONDS * 1e6 / first[device]))) for device in devices}
    times: dict[str, list[float]] = {device: [] for device in devices}
    for _ in range(rounds):
        for device in devices:
            times[device].append(timed(runs[device], counts[device], device, clock))
    return statistics.median(times["cpu"]), statistics.median(times["mpsx"])


def warm_up() -> None:
    """Starts the threads of autograd and of the operators, which the first rows would pay for."""
    runs = [backward(torch.ones(1000, device=device), torch.exp) for device in ("cpu", "mpsx")]
    end = time.perf_counter() + 0.3
    while time.perf_counter() < end:
        for run in runs:
            run()


def operator(make: Callable[[torch.Tensor], Run], size: int, dtype: str, layout: str, device: str) -> Run:
    """The call to time of an operator."""
    return make(matrix(size, DTYPES[dtype], layout, device))


def small(make: Callable[[torch.Tensor], Run], device: str) -> Run:
    """The call to time on ten elements."""
    return make(torch.arange(10.0).to(device))


def cases(options: argparse.Namespace) -> Iterator[tuple[str, str, str, int, str, Callable[[str], Run]]]:
    """Section, name, type, size, layout, and what makes the call on a device."""
    if "ops" in options.section:
        for name, (make, layouts) in OPS.items():
            chosen = [layout for layout in layouts if layout in options.layouts]
            for dtype, size, layout in itertools.product(options.dtypes, options.sizes, chosen):
                yield "ops", name, dtype, size, layout, partial(operator, make, size, dtype, layout)
    if "breadth" in options.section:
        for (name, make), dtype, size in itertools.product(BREADTH.items(), options.dtypes, options.sizes):
            yield "breadth", name, dtype, size, "contiguous", partial(operator, make, size, dtype, "contiguous")
    if "overhead" in options.section:
        for name, make in OVERHEAD.items():
            yield "overhead", name, "f32", 10, "contiguous", partial(small, make)
    if "training" in options.section:
        for name, make in TRAINING.items():
            yield "training", name, "f32", 0, "", make
    if "models" in options.section:
        for (name, phase, dtype), make in models(MODELS).items():
            yield "models", f"{name} {phase}", dtype, 0, "", make


def memory(options: argparse.Namespace) -> Iterator[Row]:
    """Peak memory of the models, in KiB in the place of microseconds."""
    for name, phase, dtype in models(MODELS):
        if not options.only or any(part in name for part in options.only):
            cpu, device = (1024 * peak(name, phase, dtype, d) for d in ("cpu", "mpsx"))
            yield Row("memory", f"{name} {phase}", dtype, 0, "", 2, cpu, device)


def measure(options: argparse.Namespace) -> Iterator[Row]:
    """Every measurement that the options ask for."""
    clock = time.process_time if options.cpu_time else time.perf_counter
    warm_up()
    for threads in options.threads:
        torch.set_num_threads(threads)
        for section, name, dtype, size, layout, make in cases(options):
            # Where an operator alone is timed, its gradient stays in this thread: handing over to the device's, as on
            # every accelerator, takes as long as many a gradient does.
            torch.autograd.set_multithreading_enabled(section not in ("ops", "breadth"))
            if options.only and not any(part in name for part in options.only):
                continue
            try:
                cpu, device = compare(make, options.rounds, clock)
                if device > BAR * cpu:
                    cpu, device = compare(make, AGAIN * options.rounds, clock)
            except (RuntimeError, TypeError) as error:  # a type the CPU or the operator lacks
                print(f"{section:<9} {name:<20} {dtype:<5} not measured: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            yield Row(section, name, dtype, size, layout, threads, cpu, device)
    if "memory" in options.section:
        yield from memory(options)


# Output.


HEADER = "section   name                 dtype   size layout      th       cpu us      mpsx us   ratio"


def show(row: Row) -> str:
    """A line of the table."""
    size = f"{row.size:.0e}".replace("e+0", "e")
    return (f"{row.section:<9} {row.name:<20} {row.dtype:<5} {size:>6} {row.layout:<11} {row.threads:>2} "
            f"{row.cpu:>12.2f} {row.mpsx:>12.2f} {row.ratio:>7.2f}")  # fmt: skip


def summary(rows: list[Row]) -> str:
    """Geometric means a section, and the worst ratios."""
    lines = []
    for section in dict.fromkeys(row.section for row in rows):
        ratios = [math.log(row.ratio) for row in rows if row.section == section]
        lines.append(f"{section}: geometric mean ratio {math.exp(statistics.mean(ratios)):.2f} over {len(ratios)} rows")
    worst = [row for row in sorted(rows, key=lambda row: -row.ratio) if row.ratio > BAR][:15]
    if worst:
        lines += [f"slower than {BAR} times the CPU:", *(show(row) for row in worst)]
    return "\n".join(lines)


def table(rows: list[Row]) -> str:
    """A line an operator, in Markdown: the geometric mean of its ratios, and the worst of them."""
    lines = [
        "# mpsx beside PyTorch on the same CPU",
        "",
        f"{mpsx.driver()['device']}, torch {torch.__version__}: time of mpsx over the CPU's, medians",
        "of interleaved rounds in one process (`python tools/bench.py`). A row is an operator with a type, a size, a",
        "layout and a number of threads.",
        "",
        *(f"- {line}" for line in summary(rows).splitlines() if "geometric" in line),
        "",
        "| section | operator | rows | mean | worst | at |",
        "|---|---|--:|--:|--:|---|",
    ]
    for section, name in dict.fromkeys((row.section, row.name) for row in rows):
        chosen = [row for row in rows if (row.section, row.name) == (section, name)]
        mean = math.exp(statistics.mean(math.log(row.ratio) for row in chosen))
        worst = max(chosen, key=lambda row: row.ratio)
        size = f"{worst.size:.0e}".replace("e+0", "e")
        where = f"{worst.dtype} {size} {worst.layout}, threads {worst.threads}"
        lines.append(f"| {section} | {name} | {len(chosen)} | {mean:.2f} | {worst.ratio:.2f} | {where} |")
    return "\n".join(lines) + "\n"


def saved(paths: list[str]) -> Iterator[Row]:
    """The rows of tables that --csv wrote."""
    for path in paths:
        with open(path, newline="") as file:
            for r in csv.DictReader(file):
                yield Row(r["section"], r["name"], r["dtype"], int(r["size"]), r["layout"], int(r["threads"]),
                          float(r["cpu"]), float(r["mpsx"]))  # fmt: skip


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sections = ["ops", "overhead", "training"]
    parser.add_argument("--section", nargs="+", choices=[*sections, "breadth", "models", "memory"], default=sections)
    parser.add_argument("--against", choices=["cpu", "cuda"], default="cpu", help="cuda: torch's own, on an NVIDIA GPU")
    parser.add_argument("--seconds", type=float, default=240, help="how long --against cuda measures")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="names that contain this")
    parser.add_argument("--sizes", nargs="+", type=lambda text: int(float(text)), default=[10**3, 10**5, 10**7])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=["f32", "f16", "bf16"])
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true", help="processor time: for one thread on a busy machine")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--csv", metavar="FILE")
    parser.add_argument("--plot", metavar="FILE.png")
    parser.add_argument("--table", metavar="FILE.md", help="a line an operator")
    parser.add_argument("--read", nargs="+", default=[], metavar="FILE.csv", help="measure nothing: what --csv wrote")
    return parser.parse_args()


def main() -> None:
    """Measures, prints, writes."""
    options = parse()
    if options.against == "cuda":
        return (bench_gpu_models if options.section == ["models"] else bench_gpu).main(options)
    print(HEADER)
    rows = []
    with mpsx.fallback.using_mode("silent"):
        for row in saved(options.read) if options.read else measure(options):
            rows.append(row)
            print(show(row), flush=True)
    if not rows:
        sys.exit("nothing was measured")
    print(summary(rows))
    figures = ("cpu", "mpsx", "ratio")  # of which more than four digits are noise
    records = [asdict(row) | {name: float(f"{getattr(row, name):.4g}") for name in figures} for row in rows]
    if options.json:
        with open(options.json, "w") as file:
            json.dump(records, file, indent=1)
    write_csv(options.csv, records)
    if options.table:
        with open(options.table, "w") as file:
            file.write(table(rows))
    if options.plot:
        plot(rows, options.plot, BAR)


if __name__ == "__main__":
    main()
