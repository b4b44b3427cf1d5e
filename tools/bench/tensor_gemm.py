#!/usr/bin/env python3
"""Compare the example GEMM over matmul2d (tests/shader/tensors/gemm.metal) with cuBLAS in the same process.

    MPSX_DRIVER=cuda python tools/bench/tensor_gemm.py --csv gemm.csv
    MPSX_DRIVER=cuda python tools/bench/tensor_gemm.py --only gpt2 --dtypes bf16
    python tools/bench/tensor_gemm.py --check         # on any driver: only compare small products with float64

For each shape, the fastest of a few tiles and numbers of splits of K is reported. With more than one split, the time
includes the kernel that sums the splits. Times are medians of interleaved rounds. Above 1, mpsx is faster.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
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
TILES_16 = [(128, 256, 8), (256, 192, 16), (192, 256, 12), (128, 192, 8), (128, 128, 8), (64, 128, 4)]
TILES = {"f16": TILES_16, "bf16": TILES_16, "f32": [(128, 128, 8)]}
CORES = 132  # multiprocessors of an H100: with fewer tiles, K is split
ROUNDS, ROUND_SECONDS = 9, 0.004


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
    for inputs, outputs in ((768, 768), (768, 2304), (768, 3072), (3072, 768), (768, 50257)):
        yield Shape("gpt2 forward", "NT", tokens, outputs, inputs)
        yield Shape("gpt2 input gradient", "NN", tokens, inputs, outputs)
        yield Shape("gpt2 weight gradient", "TN", outputs, inputs, tokens)


class Library:
    """The instances of the example's kernels that the shapes need, compiled in one library."""

    def __init__(self, dtypes: list[str]) -> None:
        instances = [self.instance(f"sum_{d}", f"split_k_reduce<{METAL[d]}>") for d in dtypes]
        for d in dtypes:
            for tile in TILES[d]:
                for layout in ("NN", "NT", "TN", "TT"):
                    flags = ", ".join("true" if letter == "T" else "false" for letter in layout)
                    for result, kind in ((METAL[d], "whole"), ("float", "part")):
                        sizes = ", ".join(map(str, tile))
                        instances.append(self.instance(self.name(kind, d, tile, layout),
                                                       f"gemm<{METAL[d]}, {result}, {sizes}, {flags}>"))  # fmt: skip
        self.kernels = mpsx.compile_shader(SOURCE.read_text() + "".join(dict.fromkeys(instances)))

    @staticmethod
    def instance(host_name: str, kernel: str) -> str:
        return f'template [[host_name("{host_name}")]] kernel decltype({kernel}) {kernel};\n'

    @staticmethod
    def name(kind: str, dtype: str, tile: tuple[int, int, int], layout: str) -> str:
        return "_".join(map(str, (kind, dtype, *tile, layout)))

    def call(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, shape: Shape, dtype: str,
             tile: tuple[int, int, int], splits: int) -> Callable[[], None]:  # fmt: skip
        """Return a call that writes the product to c."""
        part = -(-shape.k // splits)
        rows, columns, simdgroups = tile
        tiles, threads = -(-shape.m // rows) * -(-shape.n // columns), 32 * simdgroups
        kernel = getattr(self.kernels, self.name("part" if splits > 1 else "whole", dtype, tile, shape.layout))
        out = torch.empty(splits, *c.shape, device="mpsx") if splits > 1 else c
        sizes = torch.tensor([shape.m, shape.n, shape.k, a.shape[1], b.shape[1], c.shape[1], part],
                             dtype=torch.int32, device="mpsx")  # fmt: skip
        add, count = getattr(self.kernels, f"sum_{dtype}"), c.numel() // 4

        def run() -> None:
            kernel(a, b, out, sizes, threads=(tiles * threads, 1, splits), group_size=(threads, 1, 1))
            if splits > 1:
                add(out, c, count, splits, arg_casts={2: "int32", 3: "int32"}, threads=count)

        return run


def candidates(shape: Shape, dtype: str) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Yield tiles and numbers of splits of K. Splitting pays only where there are fewer tiles than multiprocessors."""
    for tile in TILES[dtype]:
        tiles = -(-shape.m // tile[0]) * -(-shape.n // tile[1])
        most = max(1, CORES // tiles) if shape.n % 4 == 0 else 1
        for splits in sorted({1, most, -(-CORES // tiles), 2 * most} if most > 1 else {1}):
            yield tile, splits


def operands(shape: Shape, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both operands on the CPU, as stored."""
    a, b = torch.randn(shape.m, shape.k), torch.randn(shape.k, shape.n)
    return tuple((x.T if flag else x).contiguous().to(DTYPES[dtype])
                 for x, flag in zip((a, b), shape.transposed, strict=True))  # fmt: skip


def as_written(a: torch.Tensor, b: torch.Tensor, shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    """Undo the transpositions of `operands`."""
    return tuple(x.T if flag else x for x, flag in zip((a, b), shape.transposed, strict=True))


def seconds(call: Callable[[], object], synchronize: Callable[[], None], calls: int) -> float:
    """Return the time of one of `calls` calls in a row."""
    synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    synchronize()
    return (time.perf_counter() - start) / calls


def medians(timers: list[Callable[[int], float]], rounds: int) -> list[float]:
    """Return the median time of each timer in interleaved rounds of equal length."""
    calls = [max(3, int(ROUND_SECONDS / max(timer(3), 1e-7))) for timer in timers]
    times = [[timer(n) for timer, n in zip(timers, calls, strict=True)] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def largest_error(got: torch.Tensor, a: torch.Tensor, b: torch.Tensor, shape: Shape) -> float:
    """Return the largest error of 64 rows against float64, relative to the sum of magnitudes."""
    rows = torch.arange(0, shape.m, max(1, shape.m // 64))
    x, y = (t.double() for t in as_written(a, b, shape))
    exact, magnitude = x[rows] @ y, x[rows].abs() @ y.abs()
    return ((got.cpu()[rows].double() - exact).abs() / magnitude).max().item()


def measure(lib: Library, shape: Shape, dtype: str) -> dict[str, object]:
    """Time one shape with cuBLAS and with the fastest tile."""
    a, b = operands(shape, dtype)
    theirs = as_written(a.cuda(), b.cuda(), shape)
    ours, c = (a.to("mpsx"), b.to("mpsx")), torch.empty(shape.m, shape.n, dtype=DTYPES[dtype], device="mpsx")
    choices = list(candidates(shape, dtype))
    calls = [lib.call(*ours, c, shape, dtype, tile, splits) for tile, splits in choices]
    timers = [lambda n, call=call: seconds(call, torch.mpsx.synchronize, n) for call in calls]
    best = min(zip(medians(timers, 3), range(len(calls)), strict=True))[1]
    cublas, example = medians(
        [lambda n: seconds(lambda: torch.mm(*theirs), torch.cuda.synchronize, n), timers[best]], ROUNDS
    )
    calls[best]()
    tile, splits = choices[best]
    return {"group": shape.group, "dtype": dtype, "layout": shape.layout, "shape": f"{shape.m}x{shape.n}x{shape.k}",
            "cublas_us": round(1e6 * cublas, 1), "mpsx_us": round(1e6 * example, 1),
            "speed": round(cublas / example, 3), "tile": "x".join(map(str, tile)), "splits": splits,
            "error": f"{largest_error(c, a, b, shape):.1e}",
            "cublas_error": f"{largest_error(torch.mm(*theirs), a, b, shape):.1e}"}  # fmt: skip


def check(lib: Library, dtype: str) -> None:
    """Compare every tile with float64 on one small product, without and with a split of K."""
    for layout in ("NN", "NT", "TN", "TT"):
        shape = Shape("check", layout, 72, 68, 96)
        a, b = operands(shape, dtype)
        for tile in TILES[dtype]:
            for splits in (1, 3):
                c = torch.empty(shape.m, shape.n, dtype=DTYPES[dtype], device="mpsx")
                lib.call(a.to("mpsx"), b.to("mpsx"), c, shape, dtype, tile, splits)()
                error, limit = largest_error(c, a, b, shape), {"f32": 2.0**-22, "f16": 2.0**-11, "bf16": 2.0**-8}[dtype]
                if error > limit:
                    sys.exit(f"{dtype} {layout}, tile {tile}, {splits} splits: error {error:.1e} above {limit:.1e}")
    print(f"{dtype}: every tile and layout agrees with float64")


def main() -> None:
    """Measure or check the shapes that the options select."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--only", default="", metavar="TEXT", help="select groups whose name contains this")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--csv", metavar="FILE")
    options = parser.parse_args()
    torch.manual_seed(0)
    start = time.perf_counter()
    lib = Library(options.dtypes)
    print(f"compiled in {time.perf_counter() - start:.1f} s")
    if options.check:
        for dtype in options.dtypes:
            check(lib, dtype)
        return
    rows = []
    for dtype in options.dtypes:
        for shape in shapes():
            if options.only in shape.group:
                rows.append(measure(lib, shape, dtype))
                print("  ".join(f"{value!s:<10}" for value in rows[-1].values()), flush=True)
    write_csv(options.csv, rows)


if __name__ == "__main__":
    main()
