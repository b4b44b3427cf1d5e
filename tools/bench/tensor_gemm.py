#!/usr/bin/env python3
"""Compare the example GEMM over matmul2d (tests/shader/tensors/gemm.metal) with cuBLAS in the same process.

    MPSX_DRIVER=cuda python tools/bench/tensor_gemm.py --csv gemm.csv
    MPSX_DRIVER=cuda python tools/bench/tensor_gemm.py --only gpt2 --dtypes bf16 --seconds 60
    python tools/bench/tensor_gemm.py --check         # on any driver: only compare small products with float64

For each shape, the fastest of a few tiles, numbers of splits of K, and orders of the tiles is reported. With more than
one split, the time includes the kernel that sums the splits. A time is that of one call among many in a CUDA graph,
which both sides record (torch.classes.mpsx.Recording, torch.cuda.CUDAGraph), so the CPU does not slow the GPU down. The
plain times are those of calls in a row from Python. All are medians of interleaved rounds. A speed above 1 means that
mpsx is faster.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

import mpsx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.worker import write_csv

SOURCE = Path(__file__).resolve().parents[2] / "tests/shader/tensors/gemm.metal"
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
METAL = {"f16": "half", "bf16": "bfloat", "f32": "float"}
# (rows, columns, SIMD groups)
TILES_16 = [(128, 256, 8), (256, 192, 16), (192, 256, 12), (192, 192, 12), (128, 192, 8), (192, 96, 12), (128, 128, 8),
            (64, 256, 4), (64, 128, 4)]  # fmt: skip
TILES = {"f16": TILES_16, "bf16": TILES_16, "f32": [(128, 128, 8), (128, 96, 8)]}
CORES = 132  # multiprocessors of an H100: with fewer tiles, K is split
ROUNDS, ROUND_SECONDS = 7, 0.004
MAX_GRAPH = 200  # calls
REFERENCE = "cuda" if torch.cuda.is_available() else "cpu"  # where operands and float64 results are computed


@dataclass(frozen=True)
class Shape:
    """The product of an m x k and a k x n matrix. A letter per operand says whether it is transposed in memory."""

    group: str
    layout: str
    m: int
    n: int
    k: int

    @property
    def transposed(self) -> tuple[bool, bool]:
        return self.layout[0] == "T", self.layout[1] == "T"


def shapes(tokens: int = 4096) -> Iterator[Shape]:
    """Yield the square products, and those of GPT-2 and BERT: forward, and the gradients of input and weight."""
    for size in (4096, 8192):
        for layout in ("NN", "NT", "TN", "TT"):
            yield Shape("square", layout, size, size, size)
    for model, inputs, outputs in (("gpt2+bert", 768, 768), ("gpt2+bert", 768, 3072), ("gpt2+bert", 3072, 768),
                                   ("gpt2", 768, 2304), ("gpt2", 768, 50257), ("bert", 768, 30522)):  # fmt: skip
        yield Shape(f"{model} forward", "NT", tokens, outputs, inputs)
        yield Shape(f"{model} input gradient", "NN", tokens, inputs, outputs)
        yield Shape(f"{model} weight gradient", "TN", outputs, inputs, tokens)


class Library:
    """The instances of the example's kernels that products need, compiled on all cores."""

    def __init__(self, products: Iterable[tuple[Shape, str]]) -> None:
        instances = {}
        for shape, d in products:
            instances[f"sum_{d}"] = f"split_k_reduce<{METAL[d]}>"
            flags = ", ".join("true" if letter == "T" else "false" for letter in shape.layout)
            for tile, splits, _ in candidates(shape, d):
                result = "float" if splits > 1 else METAL[d]
                sizes = ", ".join(map(str, tile))
                instances[self.name(splits, d, tile, shape.layout)] = f"gemm<{METAL[d]}, {result}, {sizes}, {flags}>"
        text = "".join(self.instance(*names) for names in instances.items())
        self.kernels = mpsx.compile_shader(SOURCE.read_text() + text)
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # the first access to a kernel compiles it
            list(pool.map(lambda name: getattr(self.kernels, name), instances))

    @staticmethod
    def instance(host_name: str, kernel: str) -> str:
        return f'template [[host_name("{host_name}")]] kernel decltype({kernel}) {kernel};\n'

    @staticmethod
    def name(splits: int, dtype: str, tile: tuple[int, int, int], layout: str) -> str:
        return "_".join(map(str, ("part" if splits > 1 else "whole", dtype, *tile, layout)))

    def call(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, shape: Shape, dtype: str,
             tile: tuple[int, int, int], splits: int, group_rows: int = 8) -> Callable[[], None]:  # fmt: skip
        """Return a call that writes the product to c."""
        part = -(-shape.k // splits)
        rows, columns, simdgroups = tile
        tiles, threads = -(-shape.m // rows) * -(-shape.n // columns), 32 * simdgroups
        kernel = getattr(self.kernels, self.name(splits, dtype, tile, shape.layout))
        out = torch.empty(splits, *c.shape, device="mpsx") if splits > 1 else c
        sizes = [shape.m, shape.n, shape.k, a.shape[1], b.shape[1], c.shape[1], part, group_rows]
        add, count = getattr(self.kernels, f"sum_{dtype}"), c.numel() // 4

        def run() -> None:
            kernel(a, b, out, sizes, arg_casts={3: "int32"}, threads=(tiles * threads, 1, splits),
                   group_size=(threads, 1, 1))  # fmt: skip
            if splits > 1:
                add(out, c, count, splits, arg_casts={2: "int32", 3: "int32"}, threads=count)

        return run


def candidates(shape: Shape, dtype: str) -> Iterator[tuple[tuple[int, int, int], int, int]]:
    """Yield tiles, numbers of splits of K, and tile rows per group. Splits pay only where there are fewer tiles than
    multiprocessors. Where all tiles run at once, single rows are faster for some shapes."""
    for tile in TILES[dtype]:
        tiles = -(-shape.m // tile[0]) * -(-shape.n // tile[1])
        most = max(1, CORES // tiles) if shape.n % 4 == 0 else 1
        for splits in sorted({1, most, -(-CORES // tiles), 2 * most} if most > 1 else {1}):
            for group_rows in (8, 1) if tiles * splits <= CORES else (8,):
                yield tile, splits, group_rows


class Operands:
    """Random matrices of one dtype. Products share them, because copying them to mpsx takes longer than a product."""

    def __init__(self, products: Iterable[Shape], dtype: str) -> None:
        counts = [max(sizes) for sizes in zip(*((s.m * s.k, s.k * s.n) for s in products), strict=True)]
        self.values = [torch.randn(n, dtype=torch.float32, device=REFERENCE).to(DTYPES[dtype]) for n in counts]
        self.copies = [x.to("cpu").to("mpsx") for x in self.values]

    def of(self, shape: Shape) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return both operands as stored: on the reference device, and on mpsx."""
        sizes = [(rows, columns)[:: -1 if flag else 1] for (rows, columns), flag in
                 zip(((shape.m, shape.k), (shape.k, shape.n)), shape.transposed, strict=True)]  # fmt: skip
        return tuple([x[: rows * columns].view(rows, columns) for x, (rows, columns) in zip(both, sizes, strict=True)]
                     for both in (self.values, self.copies))  # fmt: skip


def as_written(operands: list[torch.Tensor], shape: Shape) -> list[torch.Tensor]:
    """Undo the transpositions of `Operands.of`."""
    return [x.T if flag else x for x, flag in zip(operands, shape.transposed, strict=True)]


@dataclass
class Timer:
    """Measures one call: `run` does `calls` of them."""

    run: Callable[[], object]
    synchronize: Callable[[], None]
    calls: int = 1
    recorded: Callable[[], None] | None = None  # keeps the memory alive that a recording uses

    def seconds(self, rounds: int = 1) -> float:
        """Return the time of one call in `rounds` runs in a row."""
        self.synchronize()
        start = time.perf_counter()
        for _ in range(rounds):
            self.run()
        self.synchronize()
        return (time.perf_counter() - start) / (rounds * self.calls)


def recorded(call: Callable[[], None], calls: int) -> Timer:
    """Record calls on mpsx. On cuda, this makes a graph."""
    recording = torch.classes.mpsx.Recording()
    recording.begin(True)
    for _ in range(calls):
        call()
    recording.end()
    if problem := recording.finish([], [], []):
        sys.exit(f"cannot record the kernels: {problem}")
    return Timer(recording.replay, torch.mpsx.synchronize, calls, call)


def cuda_graph(call: Callable[[], None], calls: int) -> Timer:
    """Record calls of PyTorch's CUDA backend in a graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # a capture must not be the first use of cuBLAS
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            call()
    return Timer(graph.replay, torch.cuda.synchronize, calls, call)


def medians(timers: list[Timer], rounds: int) -> list[float]:
    """Return the median time of each timer in interleaved rounds of equal length."""
    runs = [max(1, int(ROUND_SECONDS / max(timer.calls * timer.seconds(), 1e-7))) for timer in timers]
    times = [[timer.seconds(n) for timer, n in zip(timers, runs, strict=True)] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def largest_error(got: torch.Tensor, operands: list[torch.Tensor], shape: Shape) -> float:
    """Return the largest error of 64 rows against float64, relative to the sum of magnitudes."""
    rows = torch.arange(0, shape.m, max(1, shape.m // 64))
    a, b = as_written(operands, shape)
    x, y = a[rows.to(a.device)].double(), b.double()
    found = got[rows.to(got.device)].cpu().to(x.device).double()
    return ((found - x @ y).abs() / (x.abs() @ y.abs())).max().item()


def measure(lib: Library, operands: Operands, shape: Shape, dtype: str) -> dict[str, object]:
    """Time one shape with cuBLAS and with the fastest tile."""
    stored, ours = operands.of(shape)
    theirs, c = as_written(stored, shape), torch.empty(shape.m, shape.n, dtype=DTYPES[dtype], device="mpsx")
    out = torch.empty(shape.m, shape.n, dtype=DTYPES[dtype], device=REFERENCE)
    calls = min(MAX_GRAPH, 1 + int(ROUND_SECONDS * 3e14 / (2 * shape.m * shape.n * shape.k)))
    choices = list(candidates(shape, dtype))
    plain = [lib.call(*ours, c, shape, dtype, *choice) for choice in choices]
    for call in plain:
        call()
    graphs = [recorded(call, calls) for call in plain]
    best = min(zip(medians(graphs, 3), range(len(graphs)), strict=True))[1]

    def cublas() -> None:
        torch.mm(*theirs, out=out)

    times = medians([cuda_graph(cublas, calls), graphs[best]], ROUNDS)
    times += medians([Timer(cublas, torch.cuda.synchronize), Timer(plain[best], torch.mpsx.synchronize)], ROUNDS)
    tile, splits, group_rows = choices[best]
    us = dict(zip(("cublas_us", "mpsx_us", "cublas_plain_us", "mpsx_plain_us"), (round(1e6 * t, 1) for t in times),
                  strict=True))  # fmt: skip
    return {"group": shape.group, "dtype": dtype, "layout": shape.layout, "shape": f"{shape.m}x{shape.n}x{shape.k}",
            "calls_per_graph": calls, **us, "speed": round(times[0] / times[1], 3),
            "tile": "x".join(map(str, tile)), "splits": splits, "group_rows": group_rows,
            "error": f"{largest_error(c, stored, shape):.1e}",
            "cublas_error": f"{largest_error(out, stored, shape):.1e}"}  # fmt: skip


def check(dtype: str) -> None:
    """Compare every tile with float64 on one small product, without and with a split of K."""
    products = [Shape("check", layout, 72, 68, 96) for layout in ("NN", "NT", "TN", "TT")]
    lib, operands = Library((shape, dtype) for shape in products), Operands(products, dtype)
    limit = {"f32": 2.0**-22, "f16": 2.0**-11, "bf16": 2.0**-8}[dtype]
    for shape in products:
        stored, ours = operands.of(shape)
        for tile in TILES[dtype]:
            for splits in (1, 3):
                c = torch.empty(shape.m, shape.n, dtype=DTYPES[dtype], device="mpsx")
                timer = recorded(lib.call(*ours, c, shape, dtype, tile, splits), 1)
                c.fill_(torch.nan)
                timer.run()
                error = largest_error(c, stored, shape)
                if not error <= limit:
                    sys.exit(f"{dtype} {shape.layout}, tile {tile}, {splits} splits: error {error:.1e} above {limit}")
    print(f"{dtype}: every tile and layout agrees with float64")


def main() -> None:
    """Measure or check the shapes that the options select."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--only", default="", metavar="TEXT", help="select groups whose name contains this")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further shape after this time")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--csv", metavar="FILE")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.check:
        for dtype in options.dtypes:
            check(dtype)
        return
    start = time.perf_counter()
    selected = [shape for shape in shapes() if options.only in shape.group]
    lib = Library((shape, dtype) for dtype in options.dtypes for shape in selected)
    print(f"compiled in {time.perf_counter() - start:.1f} s; cublas_us and mpsx_us: calls in a CUDA graph", flush=True)
    rows: list[dict[str, object]] = []
    for dtype in options.dtypes:
        operands = None  # free the previous ones first
        operands = Operands(selected, dtype)
        for shape in selected:
            if time.perf_counter() - start > options.seconds:
                break
            rows.append(measure(lib, operands, shape, dtype))
            if len(rows) == 1:
                print("  ".join(f"{name:<12}" for name in rows[0]))
            print("  ".join(f"{value!s:<12}" for value in rows[-1].values()), flush=True)
    write_csv(options.csv, rows)
    print(f"{len(rows)} of {len(options.dtypes) * len(selected)} rows in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
