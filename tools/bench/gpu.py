"""GPU benchmark for tools/bench.py (`--against cuda`): compare mpsx's cuda driver with PyTorch's CUDA backend.

    MPSX_DRIVER=cuda python tools/bench.py --against cuda --csv cuda.csv --table cuda.md --plot cuda.png
    MPSX_DRIVER=cuda python tools/bench.py --against cuda --only rows --dtypes bf16 --seconds 60

Operators run on 2^27 elements. Each round makes many calls, to measure GPU time. A row reports either the arithmetic
throughput in TFLOP/s, or the bandwidth relative to a copy, counting each input and output byte once.
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

import torch

from bench.cases import DTYPES, LAYOUTS, Run
from bench.gpu_cases import Case, cases
from bench.plot import plot
from bench.worker import Worker, compare, serve, write_csv

ROUND_SECONDS, ROUNDS = 0.004, 5

# Targets for each category: the largest ratio to PyTorch's time, and the smallest bandwidth relative to a copy. cuBLAS
# and cuDNN use hardware features that Metal does not expose, so the target for matmul is a throughput in TFLOP/s.
# tools/bench/mlx.py compares matmul with MLX.
BARS: dict[str, tuple[float, float | None]] = {
    "dense": (1.05, 0.9),
    "strided": (1.1, None),
    "rows": (1.0, 0.85),
    "columns": (1.0, 0.85),
    "index": (1.1, None),
    "pool": (1.1, None),
    "sort": (2.0, None),
    "matrix": (math.inf, None),
    "linalg": (3.0, None),
    "fft": (2.0, None),
}
BATCHED_LINALG = 1.5  # largest ratio for batches of small matrices
TERAFLOPS = {("matmul", "f32"): 15, ("matmul", "f16"): 100, ("matmul", "bf16"): 100,
             ("attention", "f16"): 60, ("attention", "bf16"): 60}  # fmt: skip
LARGE = 2.0**35.5  # TERAFLOPS applies to calls with more operations than this


@dataclass(frozen=True)
class Row:
    """One measurement. Times are in microseconds per call."""

    section: str
    name: str
    dtype: str
    shape: str
    layout: str
    cuda: float
    mpsx: float
    ratio: float
    copy: float  # bandwidth relative to a copy, or 0 if not reported
    teraflops: float

    @property
    def missed(self) -> bool:
        """Whether the measurement misses a target of its category."""
        most, least = BARS[self.section]
        if self.section == "linalg" and self.shape.count("x") == 2:
            most = BATCHED_LINALG
        kind = (self.name.removesuffix("_nt").removesuffix("_tn"), self.dtype)
        large = self.teraflops * self.mpsx * 1e6 >= LARGE
        return (round(self.ratio, 2) > most or (least is not None and 0 < round(self.copy, 2) < least)
                or (large and self.teraflops < TERAFLOPS.get(kind, 0)))  # fmt: skip


# Timing


def call_of(case: Case, device: str) -> Run:
    """Return the call to time for this case."""
    if not case.moved:
        return case.make(device)
    x = torch.randn(case.shape, device=device, dtype=DTYPES[case.dtype])
    return case.make(LAYOUTS[case.layout](x))


def measure(options: argparse.Namespace) -> Iterator[Row]:
    """Measure the cases that the options select, within the time limit."""
    dtypes = [d for d in options.dtypes if DTYPES[d].is_floating_point]
    workers = [Worker(__spec__.name, device, *dtypes, fallback="silent") for device in ("cuda", "mpsx")]
    end, bandwidth = time.perf_counter() + options.seconds, 0.0
    for number, case in enumerate(cases(dtypes)):
        if number and options.only and not any(part in f"{case.category} {case.name}" for part in options.only):
            continue
        if time.perf_counter() > end:
            print(f"time limit of {options.seconds:g} s reached: skipping {case.category} {case.name} and later cases")
            return
        try:
            theirs, ours = (1e6 * seconds for seconds in compare(workers, ROUNDS, ROUND_SECONDS, number=number))
        except RuntimeError as error:
            what = f"{case.category:<9} {case.name:<20} {case.dtype:<5} {case.shape}"
            print(f"{what} not measured: {error}", file=sys.stderr)
            continue
        bandwidth = bandwidth or case.moved / theirs  # the first case is a plain copy
        copy, teraflops = case.moved / ours / bandwidth, case.operations / ours / 1e6
        shape = "x".join(map(str, case.shape))
        facts = (case.category, case.name, case.dtype, shape, case.layout)
        yield Row(*facts, theirs, ours, ours / theirs, copy, teraflops)


# Output

HEADER = "section   name                  dtype shape                 layout          cuda us    mpsx us  ratio"


def show(row: Row) -> str:
    """Format a measurement as a line of the printed table."""
    share = f"{row.copy:7.0%}" if row.copy else f"{row.teraflops:6.1f}T" if row.teraflops else " " * 7
    return (f"{row.section:<9} {row.name:<21} {row.dtype:<5} {row.shape:<21} {row.layout:<11} {row.cuda:>11.1f} "
            f"{row.mpsx:>10.1f} {row.ratio:>6.2f} {share}{' missed' if row.missed else ''}")  # fmt: skip


def summary(rows: list[Row]) -> list[str]:
    """Format one line per category with its mean ratio and the number of missed targets."""
    lines = []
    for section, (most, least) in BARS.items():
        here = [row for row in rows if row.section == section]
        if here:
            mean = math.exp(statistics.mean(math.log(row.ratio) for row in here))
            bar = f"at most {most:g} of torch's time" + (f", at least {least:.0%} of a copy" if least else "")
            if section == "linalg":
                bar += f", {BATCHED_LINALG:g} of a batch"
            if math.isinf(most):
                bar = "large sizes: at least 15 TFLOP/s in f32, 100 in f16 and bf16, 60 for attention"
            missed = sum(row.missed for row in here)
            lines.append(f"{section}: mean ratio {mean:.2f}, {missed} of {len(here)} rows miss the target ({bar})")
    return lines


def table(rows: list[Row], device: str) -> str:
    """Format all measurements as a Markdown table."""
    lines = [
        "# mpsx and PyTorch's CUDA backend",
        "",
        f"{device}, torch {torch.__version__}: medians of interleaved rounds",
        "(`MPSX_DRIVER=cuda python tools/bench.py --against cuda`). Ratio: mpsx's time divided by torch's. Copy:",
        "bandwidth relative to torch's copy, the first row, with each byte of inputs and results counted once.",
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
    """Read measurements from CSV files written by --csv."""
    for path in paths:
        with open(path, newline="") as file:
            for r in csv.DictReader(file):
                numbers = (float(r[k]) for k in ("cuda", "mpsx", "ratio", "copy", "teraflops"))
                yield Row(r["section"], r["name"], r["dtype"], r["shape"], r["layout"], *numbers)


def main(options: argparse.Namespace) -> None:
    """Run the selected benchmarks, then print and write the results."""
    import mpsx

    if not options.read and mpsx.driver()["name"] != "cuda":
        sys.exit("--against cuda needs MPSX_DRIVER=cuda")
    print(HEADER)
    rows = []
    for row in saved(options.read) if options.read else measure(options):
        rows.append(row)
        print(show(row), flush=True)
    print("\n".join(summary(rows)))
    figures = [{k: f"{v:.4g}" if isinstance(v, float) else v for k, v in asdict(row).items()} for row in rows]
    write_csv(options.csv, figures)
    if options.table:
        with open(options.table, "w") as file:
            file.write(table(rows, mpsx.driver()["device"]))
    if options.plot:
        plot(rows, options.plot, 1.05, "torch's CUDA")


if __name__ == "__main__":
    known = list(cases(sys.argv[2:]))
    torch.autograd.set_multithreading_enabled(False)
    serve(sys.argv[1], lambda number: call_of(known[number], sys.argv[1]))
