"""The GPU's half of tools/bench.py (`--against cuda`): mpsx on its cuda driver beside torch's own CUDA, in one process.

    MPSX_DRIVER=cuda python tools/bench.py --against cuda --csv cuda.csv --table cuda.md --plot cuda.png
    MPSX_DRIVER=cuda python tools/bench.py --against cuda --only rows --dtypes bf16 --seconds 60

Operators run on 2^27 elements, many calls a round, so that the GPU's time is what is measured. A row has the share of a
copy's bandwidth, counting each byte of inputs and results once, or the arithmetic in TFLOP/s.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial

import torch
from bench_cases import DTYPES, LAYOUTS, Run
from bench_gpu_cases import ELEMENTS, Case, cases
from bench_plot import plot

import mpsx

ROUND_SECONDS, ROUNDS = 0.004, 5

# A category's bars: the most of torch's time, the least share of a copy's bandwidth.
BARS: dict[str, tuple[float, float | None]] = {
    "dense": (1.05, 0.9),
    "strided": (1.1, None),
    "rows": (1.0, 0.85),
    "columns": (1.0, 0.85),
    "index": (1.1, None),
    "pool": (1.1, None),
    "sort": (2.0, None),
    "matrix": (1.0, None),
    "training": (2.5, None),
}


@dataclass(frozen=True)
class Row:
    """One measurement; times in microseconds a call."""

    section: str
    name: str
    dtype: str
    shape: str
    layout: str
    cuda: float
    mpsx: float
    ratio: float
    copy: float  # share of a copy's bandwidth; 0: not said
    teraflops: float

    @property
    def missed(self) -> bool:
        """Slower than the bars of its category allow."""
        most, least = BARS[self.section]
        return self.ratio > most or (least is not None and 0 < self.copy < least)


# Timing.


def call_of(case: Case, device: str) -> Run:
    """The call to time."""
    if not case.moved:
        return case.make(device)
    x = torch.randn(case.shape, device=device, dtype=DTYPES[case.dtype])
    return case.make(LAYOUTS[case.layout](x))


def wait(device: str) -> None:
    """Until the GPU is done."""
    (torch.mpsx if device == "mpsx" else torch.cuda).synchronize()


def timed(run: Run, count: int, device: str) -> float:
    """Microseconds a call, over `count` calls."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    wait(device)
    return (time.perf_counter() - start) / count * 1e6


def compare(case: Case) -> tuple[float, float]:
    """Median microseconds a call on torch's CUDA and on mpsx, in turns."""
    for module in (torch.mpsx, torch.cuda):
        module.empty_cache()  # each would keep what the other needs
    runs, counts = {}, {}
    for device in ("cuda", "mpsx"):
        runs[device] = call_of(case, device)
        timed(runs[device], 1, device)
        counts[device] = max(1, min(200, int(ROUND_SECONDS * 1e6 / timed(runs[device], 1, device))))
    times: dict[str, list[float]] = {device: [] for device in runs}
    for _ in range(ROUNDS):
        for device, run in runs.items():
            times[device].append(timed(run, counts[device], device))
    return statistics.median(times["cuda"]), statistics.median(times["mpsx"])


def copy_bandwidth() -> float:
    """Bytes read and written in a microsecond by torch's own copy."""
    x = torch.ones(ELEMENTS, device="cuda")
    y = torch.empty_like(x)
    return 2 * x.nbytes / statistics.median(timed(partial(y.copy_, x), 20, "cuda") for _ in range(7))


def measure(options: argparse.Namespace, bandwidth: float) -> Iterator[Row]:
    """The rows that the options ask for, until the time is up."""
    torch.autograd.set_multithreading_enabled(False)
    end = time.perf_counter() + options.seconds
    dtypes = [d for d in options.dtypes if DTYPES[d].is_floating_point]
    for case in cases(dtypes):
        if options.only and not any(part in f"{case.category} {case.name}" for part in options.only):
            continue
        if time.perf_counter() > end:
            print(f"{options.seconds:g} s are over: {case.category} {case.name} and what follows is not measured")
            return
        try:
            cuda, ours = compare(case)
        except (RuntimeError, TypeError) as error:
            what = f"{case.category:<9} {case.name:<20} {case.dtype:<5} {case.shape}"
            print(f"{what} not measured: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        copy, teraflops = case.moved / ours / bandwidth, case.operations / ours / 1e6
        shape = "x".join(map(str, case.shape))
        yield Row(case.category, case.name, case.dtype, shape, case.layout, cuda, ours, ours / cuda, copy, teraflops)


# Output.

HEADER = "section   name                  dtype shape                 layout          cuda us    mpsx us  ratio"


def show(row: Row) -> str:
    """A line of the table."""
    share = f"{row.copy:7.0%}" if row.copy else f"{row.teraflops:6.1f}T" if row.teraflops else " " * 7
    return (f"{row.section:<9} {row.name:<21} {row.dtype:<5} {row.shape:<21} {row.layout:<11} {row.cuda:>11.1f} "
            f"{row.mpsx:>10.1f} {row.ratio:>6.2f} {share}{' missed' if row.missed else ''}")  # fmt: skip


def summary(rows: list[Row]) -> list[str]:
    """A line a category."""
    lines = []
    for section, (most, least) in BARS.items():
        here = [row for row in rows if row.section == section]
        if here:
            mean = math.exp(statistics.mean(math.log(row.ratio) for row in here))
            bar = f"at most {most:g} of torch's time" + (f", at least {least:.0%} of a copy" if least else "")
            missed = sum(row.missed for row in here)
            lines.append(f"{section}: mean ratio {mean:.2f}, {missed} of {len(here)} rows miss the bar ({bar})")
    return lines


def table(rows: list[Row], bandwidth: float) -> str:
    """Everything in Markdown."""
    lines = [
        "# mpsx beside torch's own CUDA",
        "",
        f"{mpsx.driver()['device']}, torch {torch.__version__}: medians of interleaved rounds in one process",
        "(`MPSX_DRIVER=cuda python tools/bench.py --against cuda`). Ratio: time of mpsx over torch's. Copy: the share",
        f"of the bandwidth of torch's copy, {bandwidth / 1e3:.0f} GB/s, in which each byte counts once.",
        "",
        *(f"- {line}" for line in summary(rows)),
        "",
        "| section | operator | type | shape | layout | cuda µs | mpsx µs | ratio | copy or TFLOP/s | |",
        "|---|---|---|---|---|--:|--:|--:|--:|---|",
    ]
    for r in rows:
        share = f"{r.copy:.0%}" if r.copy else f"{r.teraflops:.1f}" if r.teraflops else ""
        lines.append(f"| {r.section} | {r.name} | {r.dtype} | {r.shape} | {r.layout} | {r.cuda:.1f} | {r.mpsx:.1f} | "
                     f"{r.ratio:.2f} | {share} | {'missed' * r.missed} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def saved(paths: list[str]) -> Iterator[Row]:
    """The rows of tables that --csv wrote."""
    for path in paths:
        with open(path, newline="") as file:
            for r in csv.DictReader(file):
                numbers = (float(r[k]) for k in ("cuda", "mpsx", "ratio", "copy", "teraflops"))
                yield Row(r["section"], r["name"], r["dtype"], r["shape"], r["layout"], *numbers)


def main(options: argparse.Namespace) -> None:
    """Measures, prints, writes."""
    if not options.read and mpsx.driver()["name"] != "cuda":
        sys.exit("--against cuda needs MPSX_DRIVER=cuda")
    bandwidth = 0.0 if options.read else copy_bandwidth()
    print(f"a copy of {4 * ELEMENTS} bytes: {bandwidth / 1e3:.0f} GB/s\n{HEADER}")
    rows = []
    with mpsx.fallback.using_mode("silent"):
        for row in saved(options.read) if options.read else measure(options, bandwidth):
            rows.append(row)
            print(show(row), flush=True)
    print("\n".join(summary(rows)))
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            records = [{k: f"{v:.4g}" if isinstance(v, float) else v for k, v in asdict(row).items()} for row in rows]
            writer = csv.DictWriter(file, records[0])
            writer.writeheader()
            writer.writerows(records)
    if options.table:
        with open(options.table, "w") as file:
            file.write(table(rows, bandwidth))
    if options.plot:
        plot(rows, options.plot, 1.05, "torch's CUDA")
