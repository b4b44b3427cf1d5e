"""CPU benchmark for tools/bench.py: compare mpsx with PyTorch on the same CPU, in separate processes.

The process that measures PyTorch does not load mpsx, because mpsx's threads, allocators, and hooks might slow down the
baseline. The two processes alternate in short rounds, so that other load on the machine slows down both. The result is
the median over the rounds. Before each round, both processes sleep until OpenMP's workers stop spinning, and an untimed
call wakes the workers.

A benchmark whose ratio exceeds BAR is repeated with AGAIN times as many rounds, because the excess may be noise.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from bench.breadth import BREADTH
from bench.cases import DTYPES, OPS, OVERHEAD, TRAINING, Run, matrix
from bench.models import call, models, peak
from bench.plot import plot
from bench.worker import Worker, compare, serve, write_csv

SECTIONS = ["ops", "breadth", "overhead", "training", "demo", "models", "memory"]
DEVICES = ("cpu", "mpsx")
MODELS = ["resnet50", "vgg16", "bert", "gpt2", "llama"]
DEMOS = ["resnet", "gpt"]
ROUND_SECONDS, STEP_ROUND_SECONDS = 0.004, 0.15  # minimum duration of a round of operator calls and of training steps
BAR, AGAIN = 1.3, 5


@dataclass(frozen=True)
class Row:
    """One measurement. Times are in microseconds per call. In the section "memory", they are sizes in KiB."""

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
        """mpsx's time divided by PyTorch's."""
        return self.mpsx / self.cpu


# Worker processes


def demo_step(name: str, device: str) -> Run:
    """Return a training step of `python -m mpsx demo`. Its models are plain PyTorch."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "mpsx" / "cli"))
    from demo.tasks import TASKS  # type: ignore[import-not-found]

    task = TASKS[name](0)
    torch.manual_seed(0)
    model = task.model().to(device)
    optimizer, batches = task.optimizer(model), task.batches()

    def step() -> None:
        inputs, targets = (part.to(device) for part in next(batches))
        loss = task.loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return step


def make(device: str, section: str, name: str, dtype: str, size: int, layout: str, threads: int) -> Run:
    """Return the call to time for one benchmark."""
    torch.set_num_threads(threads)
    if section == "models":
        model, phase = name.split()
        return call(model, phase, dtype, device)
    if section == "training":
        return TRAINING[name](device)
    if section == "demo":
        return demo_step(name, device)
    if section == "overhead":
        return OVERHEAD[name](torch.arange(10.0).to(device))
    operator = OPS[name][0] if section == "ops" else BREADTH[name]
    return operator(matrix(size, DTYPES[dtype], layout, device))


def new_workers() -> list[Worker]:
    """Start one worker process per device."""
    return [Worker(__spec__.name, device, fallback="silent") for device in DEVICES]


# Measurements


def cases(options: argparse.Namespace) -> Iterator[tuple[str, str, str, int, str]]:
    """Yield the section, name, dtype, size, and layout of each selected benchmark."""
    if "ops" in options.section:
        for name, (_, layouts) in OPS.items():
            chosen = [layout for layout in layouts if layout in options.layouts]
            yield from (("ops", name, *row) for row in itertools.product(options.dtypes, options.sizes, chosen))
    if "breadth" in options.section:
        rows = itertools.product(BREADTH, options.dtypes, options.sizes)
        yield from (("breadth", name, dtype, size, "contiguous") for name, dtype, size in rows)
    for section, names in (("overhead", OVERHEAD), ("training", TRAINING), ("demo", DEMOS)):
        if section in options.section:
            yield from ((section, name, "f32", 0, "") for name in names)
    if "models" in options.section:
        rows = ((name, phase, dtype) for name, phase, dtype in models(MODELS) if dtype in options.dtypes)
        yield from (("models", f"{name} {phase}", dtype, 0, "") for name, phase, dtype in rows)


def memory(wanted: Callable[[str], bool]) -> Iterator[Row]:
    """Measure each model's peak memory in KiB."""
    for name, phase, dtype in models(MODELS):
        if wanted(name):
            cpu, device = (1024 * peak(name, phase, dtype, d) for d in DEVICES)
            yield Row("memory", f"{name} {phase}", dtype, 0, "", 2, cpu, device)


def measure(options: argparse.Namespace) -> Iterator[Row]:
    """Run the benchmarks that the options select."""

    def wanted(name: str) -> bool:
        return not options.only or any(part in name for part in options.only)

    workers = new_workers()
    for threads, case in itertools.product(options.threads, cases(options)):
        section, name, dtype, size, layout = case
        if not wanted(name):
            continue
        seconds = ROUND_SECONDS if section in ("ops", "breadth", "overhead") else STEP_ROUND_SECONDS
        request = partial(compare, workers, seconds=seconds, section=section, name=name, dtype=dtype, size=size,
                          layout=layout, threads=threads)  # fmt: skip
        try:
            cpu, device = request(options.rounds)
            if device > BAR * cpu:
                cpu, device = request(AGAIN * options.rounds)
        except RuntimeError as error:  # PyTorch or the operator does not support the dtype
            print(f"{section:<9} {name:<20} {dtype:<5} not measured: {error}", file=sys.stderr)
            continue
        yield Row(section, name, dtype, size, layout, threads, 1e6 * cpu, 1e6 * device)
    if "memory" in options.section:
        yield from memory(wanted)


# Output


HEADER = "section   name                 dtype   size layout      th       cpu us      mpsx us   ratio"


def show(row: Row) -> str:
    """Format a measurement as a line of the printed table."""
    size = f"{row.size:.0e}".replace("e+0", "e")
    return (f"{row.section:<9} {row.name:<20} {row.dtype:<5} {size:>6} {row.layout:<11} {row.threads:>2} "
            f"{row.cpu:>12.2f} {row.mpsx:>12.2f} {row.ratio:>7.2f}")  # fmt: skip


def summary(rows: list[Row]) -> str:
    """Format each section's geometric mean ratio, and the largest ratios."""
    lines = []
    for section in dict.fromkeys(row.section for row in rows):
        ratios = [math.log(row.ratio) for row in rows if row.section == section]
        lines.append(f"{section}: geometric mean ratio {math.exp(statistics.mean(ratios)):.2f} over {len(ratios)} rows")
    worst = [row for row in sorted(rows, key=lambda row: -row.ratio) if row.ratio > BAR][:15]
    if worst:
        lines += [f"slower than {BAR} times the CPU:", *(show(row) for row in worst)]
    return "\n".join(lines)


def table(rows: list[Row], device: str) -> str:
    """Format a Markdown table with each operator's geometric mean ratio and largest ratio."""
    lines = [
        "# mpsx and PyTorch on the same CPU",
        "",
        f"{device}, torch {torch.__version__}: mpsx's time divided by PyTorch's, medians of interleaved rounds",
        "(`python tools/bench.py`). PyTorch runs in a process that never loads mpsx. A measurement is one operator",
        "with a dtype, a size, a layout, and a number of threads.",
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
    """Read measurements from CSV files written by --csv."""
    for path in paths:
        with open(path, newline="") as file:
            for r in csv.DictReader(file):
                yield Row(r["section"], r["name"], r["dtype"], int(r["size"]), r["layout"], int(r["threads"]),
                          float(r["cpu"]), float(r["mpsx"]))  # fmt: skip


def main(options: argparse.Namespace) -> None:
    """Run the selected benchmarks, then print and write the results."""
    import mpsx

    print(HEADER)
    rows = []
    for row in saved(options.read) if options.read else measure(options):
        rows.append(row)
        print(show(row), flush=True)
    if not rows:
        sys.exit("nothing was measured")
    print(summary(rows))
    figures = ("cpu", "mpsx", "ratio")  # these columns are rounded to four significant digits
    records = [asdict(row) | {name: float(f"{getattr(row, name):.4g}") for name in figures} for row in rows]
    if options.json:
        with open(options.json, "w") as file:
            json.dump(records, file, indent=1)
    write_csv(options.csv, records)
    if options.table:
        with open(options.table, "w") as file:
            file.write(table(rows, mpsx.driver()["device"]))
    if options.plot:
        plot(rows, options.plot, BAR)


if __name__ == "__main__":
    serve(sys.argv[1], partial(make, sys.argv[1]))
