#!/usr/bin/env python3
"""Times operators and training steps on mpsx and on the CPU, interleaved in one process.

    python tools/bench.py                          everything, as a table (about ten minutes)
    python tools/bench.py --only softmax --only layer_norm
    python tools/bench.py --section overhead       microseconds a call on ten elements
    python tools/bench.py --section training --json steps.json
    python tools/bench.py --sizes 1e5 --dtypes f32 bf16 --threads 1 --csv ops.csv --plot ops.png

A ratio is mpsx's time over the CPU's: below 1 mpsx is faster. Both take turns in short rounds, so that a busy machine
slows both alike; the figure is the median round.
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

import torch
import torch.nn.functional as F

import mpsx

Run = Callable[[], object]
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64}
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t().contiguous().t(),
    "broadcast": lambda t: t[:1].clone().expand(t.shape),
}
ROUND_SECONDS = 0.004  # what a round of one device takes, where one call does not take longer


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


# Operators: a function of a matrix (in some layout) that makes the call to time.

OPS: dict[str, tuple[Callable[[torch.Tensor], Run], tuple[str, ...]]] = {}


def op(name: str, make: Callable[[torch.Tensor], Run], layouts: tuple[str, ...] = tuple(LAYOUTS)) -> None:
    """Adds an operator; `layouts`: the input layouts that make sense for it."""
    OPS[name] = (make, layouts)


def like(x: torch.Tensor) -> torch.Tensor:
    """Another dense matrix of x's shape."""
    return torch.ones(x.shape, dtype=x.dtype, device=x.device)


def images(x: torch.Tensor) -> torch.Tensor:
    """About as many elements as x has, as a batch of pictures with 16 channels."""
    side = 4 if x.numel() < 10**4 else 8 if x.numel() < 10**6 else 32
    batch = x.numel() // (16 * side * side)
    return x.reshape(-1)[: batch * 16 * side * side].reshape(batch, 16, side, side)


def positions(x: torch.Tensor) -> torch.Tensor:
    """An index for every row of x, in no order."""
    n = x.shape[0]
    return (torch.arange(n) * 7919 % n).to(x.device)


def optimizer_step(x: torch.Tensor, **how: bool) -> Run:
    """A step of AdamW on four tensors with x's elements in all."""
    params = [torch.nn.Parameter(part.clone()) for part in x.reshape(-1).chunk(4)]
    for p in params:
        p.grad = torch.ones_like(p)
    return torch.optim.AdamW(params, **how).step


def square(x: torch.Tensor) -> torch.Tensor:
    """A square matrix of as many rows as x has columns."""
    return x[: x.shape[1], : x.shape[1]].contiguous()


DENSE = ("contiguous",)
for unary in ("exp", "tanh", "sigmoid", "sqrt", "neg", "erf"):
    op(unary, lambda x, name=unary: partial(getattr(torch, name), x))
for activation in ("relu", "gelu", "silu"):
    op(activation, lambda x, name=activation: partial(getattr(F, name), x))
for binary in ("add", "mul", "div", "maximum", "lt"):
    op(binary, lambda x, name=binary: partial(getattr(torch, name), x, like(x)))
op("add_scalar", lambda x: partial(torch.add, x, 1.5))
op("where", lambda x: partial(torch.where, x > 0, x, like(x)))
op("clamp", lambda x: partial(torch.clamp, x, -0.5, 0.5))
op("contiguous", lambda x: partial(x.clone, memory_format=torch.contiguous_format))
op("to_half", lambda x: partial(x.to, torch.float16 if x.dtype != torch.float16 else torch.float32))
op("fill", lambda x: partial(like(x).fill_, 2.0), DENSE)
for reduction in ("sum", "mean", "amax", "argmax"):
    op(f"{reduction}_rows", lambda x, name=reduction: partial(getattr(x, name), -1))
    op(f"{reduction}_columns", lambda x, name=reduction: partial(getattr(x, name), 0))
op("sum_all", lambda x: x.sum)
op("var_rows", lambda x: partial(torch.var, x, -1))
op("softmax", lambda x: partial(torch.softmax, x, -1))
op("log_softmax", lambda x: partial(torch.log_softmax, x, -1))
op("layer_norm", lambda x: partial(F.layer_norm, x, x.shape[-1:]))
op("rms_norm", lambda x: partial(F.rms_norm, x, x.shape[-1:]))
op("batch_norm", lambda x: partial(F.batch_norm, images(x), None, None, training=True), DENSE)
op("group_norm", lambda x: partial(F.group_norm, images(x), 4), DENSE)
op("max_pool2d", lambda x: partial(F.max_pool2d, images(x), 2), DENSE)
op("avg_pool2d", lambda x: partial(F.avg_pool2d, images(x), 2), DENSE)
op("embedding", lambda x: partial(F.embedding, positions(x), x), DENSE)
op("gather", lambda x: partial(torch.gather, x, 0, positions(x).expand(x.shape[1], -1).t()), DENSE)
op("index_select", lambda x: partial(torch.index_select, x, 0, positions(x)))
op("cat", lambda x: partial(torch.cat, [x, x], -1))
op("cross_entropy", lambda x: partial(F.cross_entropy, x, positions(x) % x.shape[1]), DENSE)
op("mse_loss", lambda x: partial(F.mse_loss, x, like(x)))
op("dropout", lambda x: partial(F.dropout, x, 0.1))
op("uniform_", lambda x: like(x).uniform_, DENSE)
op("normal_", lambda x: like(x).normal_, DENSE)
op("bernoulli_", lambda x: partial(like(x).bernoulli_, 0.5), DENSE)
op("matmul", lambda x: partial(torch.mm, x[:256], square(x)), DENSE)
op("adamw_fused", lambda x: optimizer_step(x, fused=True), DENSE)
op("adamw_default", optimizer_step, DENSE)


def matrix(size: int, dtype: torch.dtype, layout: str, device: str) -> torch.Tensor:
    """`size` random elements, the same on every device."""
    rows = max(2, int(math.sqrt(size)) // 4)
    values = torch.randn(rows, max(2, size // rows), generator=torch.Generator().manual_seed(0))
    return LAYOUTS[layout]((values if dtype.is_floating_point else values * 100).to(dtype).to(device))


# The calls whose overhead is timed: ten elements, so that the call itself is what costs.

OVERHEAD: dict[str, Callable[[torch.Tensor], Run]] = {
    "empty": lambda x: partial(torch.empty, 10, device=x.device),
    "add": lambda x: partial(torch.add, x, x),
    "add out=": lambda x: partial(torch.add, x, x, out=torch.empty_like(x)),
    "add_": lambda x: partial(torch.zeros_like(x).add_, x),
    "mul scalar": lambda x: partial(torch.mul, x, 2.0),
    "relu": lambda x: x.relu,
    "gelu": lambda x: partial(F.gelu, x),
    "sum": lambda x: x.sum,
    "softmax": lambda x: partial(torch.softmax, x, -1),
    "layer_norm": lambda x: partial(F.layer_norm, x, (10,)),
    "copy_": lambda x: partial(torch.zeros_like(x).copy_, x),
    "view": lambda x: partial(x.view, 2, 5),
    "cat": lambda x: partial(torch.cat, [x, x]),
    "normal_": lambda x: torch.zeros_like(x).normal_,
    "dropout": lambda x: partial(F.dropout, x, 0.5),
    "item": lambda x: torch.ones((), device=x.device).item,
    "mm 8x8": lambda x: partial(torch.mm, *2 * [torch.ones(8, 8, device=x.device)]),
}


class Block(torch.nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(channels),
            torch.nn.ReLU(),
            torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of both ways."""
        return F.relu(x + self.body(x))


def resnet_step(device: str) -> Run:
    """A step of a small residual network on 64 pictures of 32x32."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), Block(16), torch.nn.MaxPool2d(2), Block(16), Block(16),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 10),
    ).to(device)  # fmt: skip
    x, y = torch.randn(64, 3, 32, 32).to(device), torch.randint(10, (64,)).to(device)
    return training_step(model, lambda: F.cross_entropy(model(x), y))


class Transformer(torch.nn.Module):
    """A decoder of two layers, width 128, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, activation="gelu", batch_first=True)
        self.embed = torch.nn.Embedding(96, 128)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(128, 96)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of the next token."""
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.head(self.layers(self.embed(tokens), mask=mask, is_causal=True))


def transformer_step(device: str) -> Run:
    """A step of a small language model on 16 sequences of 64 tokens."""
    model = Transformer().to(device)
    tokens = torch.randint(96, (16, 65)).to(device)
    return training_step(model, lambda: F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()))


def training_step(model: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> Run:
    """Forward, backward, clip, step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


TRAINING = {"resnet": resnet_step, "transformer": transformer_step}


# Timing.


def timed(run: Run, count: int, device: str) -> float:
    """Microseconds a call, over `count` calls."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    if device == "mpsx":
        torch.mpsx.synchronize()
    return (time.perf_counter() - start) / count * 1e6


def compare(make: Callable[[str], Run], rounds: int) -> tuple[float, float]:
    """Median microseconds a call on the CPU and on mpsx, in turns."""
    devices = ("cpu", "mpsx")
    runs = {device: make(device) for device in devices}
    first = {device: timed(run, 1, device) for device, run in runs.items()}
    first = {device: min(first[device], timed(run, 1, device)) for device, run in runs.items()}
    counts = {device: max(1, min(5000, int(ROUND_SECONDS * 1e6 / first[device]))) for device in devices}
    times: dict[str, list[float]] = {device: [] for device in devices}
    for _ in range(rounds):
        for device in devices:
            times[device].append(timed(runs[device], counts[device], device))
    return statistics.median(times["cpu"]), statistics.median(times["mpsx"])


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
    if "overhead" in options.section:
        for name, make in OVERHEAD.items():
            yield "overhead", name, "f32", 10, "contiguous", partial(small, make)
    if "training" in options.section:
        for name, make in TRAINING.items():
            yield "training", name, "f32", 0, "", make


def measure(options: argparse.Namespace) -> Iterator[Row]:
    """Every measurement that the options ask for."""
    for threads in options.threads:
        torch.set_num_threads(threads)
        for section, name, dtype, size, layout, make in cases(options):
            if options.only and not any(part in name for part in options.only):
                continue
            try:
                cpu, device = compare(make, options.rounds)
            except RuntimeError as error:  # a type the CPU or the operator lacks
                print(f"{section:<9} {name:<16} {dtype:<5} not measured: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            yield Row(section, name, dtype, size, layout, threads, cpu, device)


# Output.


HEADER = "section   name             dtype   size layout      th       cpu us      mpsx us   ratio"


def show(row: Row) -> str:
    """A line of the table."""
    size = f"{row.size:.0e}".replace("e+0", "e")
    return (f"{row.section:<9} {row.name:<16} {row.dtype:<5} {size:>6} {row.layout:<11} {row.threads:>2} "
            f"{row.cpu:>12.2f} {row.mpsx:>12.2f} {row.ratio:>7.2f}")  # fmt: skip


def summary(rows: list[Row]) -> str:
    """Geometric means a section, and the worst ratios."""
    lines = []
    for section in dict.fromkeys(row.section for row in rows):
        ratios = [math.log(row.ratio) for row in rows if row.section == section]
        lines.append(f"{section}: geometric mean ratio {math.exp(statistics.mean(ratios)):.2f} over {len(ratios)} rows")
    worst = [row for row in sorted(rows, key=lambda row: -row.ratio) if row.ratio > 1.3][:15]
    if worst:
        lines += ["slower than 1.3 times the CPU:", *(show(row) for row in worst)]
    return "\n".join(lines)


def plot(rows: list[Row], path: str) -> None:
    """Ratios by operator, one mark a row, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row.name for row in rows))
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.24 * len(names)), layout="constrained")
    for dtype in dict.fromkeys(row.dtype for row in rows):
        chosen = [row for row in rows if row.dtype == dtype]
        places = [names.index(row.name) for row in chosen]
        axes.scatter([row.ratio for row in chosen], places, s=14, alpha=0.6, label=dtype)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("mpsx time / CPU time (left of 1: mpsx is faster)")
    axes.legend()
    figure.savefig(path, dpi=120)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sections = ["ops", "overhead", "training"]
    parser.add_argument("--section", nargs="+", choices=sections, default=sections)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="names that contain this")
    parser.add_argument("--sizes", nargs="+", type=lambda text: int(float(text)), default=[10**3, 10**5, 10**7])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=["f32", "f16", "bf16"])
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--csv", metavar="FILE")
    parser.add_argument("--plot", metavar="FILE.png")
    return parser.parse_args()


def main() -> None:
    """Measures, prints, writes."""
    options = parse()
    print(HEADER)
    rows = []
    with mpsx.fallback.using_mode("silent"):
        for row in measure(options):
            rows.append(row)
            print(show(row), flush=True)
    if not rows:
        sys.exit("nothing was measured")
    print(summary(rows))
    records = [asdict(row) | {"ratio": row.ratio} for row in rows]
    if options.json:
        with open(options.json, "w") as file:
            json.dump(records, file, indent=1)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, records[0])
            writer.writeheader()
            writer.writerows(records)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
