"""Run Metal kernels from a checkout of another project next to mpsx's operators: check them, and time them.

A `Case` is one operation. mpsx's operator, PyTorch's CUDA backend, and the float64 reference all compute it with the
same PyTorch function. `theirs` are the launches of the other project's kernels.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from mpsx.shader import library

from .tensor_gemm import REFERENCE, Timer, medians
from .worker import write_csv

TAGS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# Relative rounding errors. Metal's float operands have relaxed precision, which permits TF32.
EPSILON = {torch.float32: 2.0**-10, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-8}
ROUNDS = 5
Run = Callable[[], torch.Tensor]


def packed(form: str, *values: float) -> torch.Tensor:
    """Pack values into a struct in device memory."""
    return torch.frombuffer(bytearray(struct.pack(form, *values)), dtype=torch.uint8).to("mpsx")


def tiles(size: int, tile: int) -> int:
    """Return how many tiles cover `size`."""
    return -(-size // tile)


def poison(out: torch.Tensor) -> None:
    """Fill a small result with NaN, so that elements that a kernel does not write count as errors."""
    if out.numel() < 2**18:
        out.fill_(torch.nan)


class Kernel:
    """A kernel of a checkout. The first call compiles it, or `Checkout.compile` does so earlier."""

    def __init__(self, load: Callable[[], object], name: str, constants: dict[str, object]) -> None:
        self.load, self.name, self.constants = load, name, constants
        self.seconds: float | None = None  # for compiling, and for loading into the driver

    def compile(self) -> None:
        if self.seconds is None:
            library = self.load()
            start = time.perf_counter()
            found = getattr(library, self.name)
            self.call = found.with_constants(**self.constants) if self.constants else found
            self.seconds = time.perf_counter() - start

    def __call__(self, *arguments: object, **launch: object) -> None:
        self.compile()
        self.call(*arguments, **launch)


class Checkout:
    """The kernels of a project. `folder` contains its kernel sources, `includes` are the include directories, and
    `defines` precedes each source."""

    def __init__(self, folder: Path, includes: list[Path], defines: str = "") -> None:
        self.folder, self.includes, self.defines = folder, [str(path) for path in includes], defines
        self.files: dict[str, library.ShaderLibrary] = {}
        self.kernels: dict[tuple, Kernel] = {}

    def file(self, name: str) -> library.ShaderLibrary:
        """Return the library of the source `name`, relative to `folder`."""
        if name not in self.files:
            path = self.folder / f"{name}.metal"
            text = f'{self.defines}#line 1 "{path.name}"\n{path.read_text()}'
            self.files[name] = library.load(text, str(path), [*self.includes, str(path.parent)])
        return self.files[name]

    def kernel(self, file: str, name: str, **constants: object) -> Kernel:
        """Return the kernel `name` from the source `file`, specialized for function constants."""
        key = file, name, *constants.items()
        if key not in self.kernels:
            self.kernels[key] = Kernel(lambda: self.file(file), name, constants)
        return self.kernels[key]

    def compile(self) -> None:
        """Compile the kernels that `kernel` has returned, on all cores."""
        for file in {key[0] for key in self.kernels}:
            self.file(file)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(Kernel.compile, self.kernels.values()))


@dataclass
class Case:
    """One operation: `function(*operands)`. `magnitude` returns the function's value with the absolute values of all
    summands, which scales the errors. It gets the operands in float64."""

    name: str
    work: float  # number of floating-point operations
    function: Callable[..., torch.Tensor]
    operands: list[torch.Tensor]
    theirs: Iterable[tuple[str, Run]]  # names and launches; an iterator is run through when the case is selected
    magnitude: Callable[..., torch.Tensor] | None = None
    limit: float = 1.0  # largest error, in rounding errors of the magnitude

    def ours(self) -> torch.Tensor:
        return self.function(*self.operands)

    def errors(self) -> Iterator[tuple[str, float]]:
        """Yield the error of mpsx and of each of their kernels, divided by the largest one that is allowed."""
        exact = [x.cpu().to(REFERENCE).double() if x.is_floating_point() else x.cpu().to(REFERENCE)
                 for x in self.operands]  # fmt: skip
        expected = self.function(*exact)
        scale = self.magnitude(*exact) if self.magnitude else self.function(*(x.abs() for x in exact))
        allowed = self.limit * EPSILON[self.operands[0].dtype] * scale
        for name, run in [("mpsx", self.ours), *self.theirs]:
            error = (run().cpu().to(REFERENCE).double() - expected).abs()
            yield name, (error / allowed.clamp(min=1e-30)).nan_to_num(nan=torch.inf).max().item()


def add_arguments(parser: argparse.ArgumentParser, dtypes: Iterable[str] = TAGS) -> None:
    """Add the options that all comparisons have."""
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--dtypes", nargs="+", default=list(dtypes), choices=list(dtypes))
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="cases whose name contains a text")
    parser.add_argument("--small", action="store_true", help="check many kernels at small odd sizes, without timing")
    parser.add_argument("--cuda", action="store_true", help="also time PyTorch's CUDA backend")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further case after this time")
    parser.add_argument("--csv")


def compare(checkout: Checkout, cases: list[tuple[str, Case]], options: argparse.Namespace, project: str) -> None:
    """Check and time the cases, given with the tags of their dtypes. Exit with a message if a result is wrong."""
    start = time.perf_counter()
    cases = [(tag, case) for tag, case in cases if any(text in case.name for text in options.only)]
    for _, case in cases:
        case.theirs = list(case.theirs)
    checkout.compile()
    print(f"{len(checkout.kernels)} kernels of {project} in {time.perf_counter() - start:.1f} s, of them the slowest:")
    for kernel in sorted(checkout.kernels.values(), key=lambda kernel: -kernel.seconds)[:5]:
        print(f"  {kernel.name}: compiled and loaded in {kernel.seconds:.2f} s", flush=True)
    rows: list[dict[str, object]] = []
    wrong = 0
    for tag, case in cases:
        if time.perf_counter() - start > options.seconds:
            print("stopped: out of time")
            break
        try:
            errors = dict(case.errors())
        except RuntimeError as error:
            wrong += 1
            print(f"{case.name} {tag}: {error}")
            continue
        for name in [name for name, error in errors.items() if not error <= 1]:
            wrong += 1
            print(f"{case.name} {tag}: {name} is wrong: {errors[name]:.3g} times the allowed error")
        if options.small:
            print(f"{case.name} {tag}: {len(case.theirs)} kernels, {max(errors.values()):.2f} of the allowed error")
        else:
            rows.append({"operation": case.name, "dtype": tag} | timed(case, project, options.cuda))
            if len(rows) == 1:
                print(*rows[0], sep="\t")
            print(*rows[-1].values(), sep="\t")
        sys.stdout.flush()
    write_csv(options.csv, rows)
    if wrong:
        sys.exit(f"{wrong} wrong results")


def timed(case: Case, project: str, with_cuda: bool) -> dict[str, object]:
    """Time a case. Of their kernels, report the fastest."""
    timers = [Timer(run, torch.mpsx.synchronize) for run in (case.ours, *(run for _, run in case.theirs))]
    if with_cuda:
        on_cuda = [x.cpu().cuda() for x in case.operands]
        timers.append(Timer(lambda: case.function(*on_cuda), torch.cuda.synchronize))
    ours, *others = medians(timers, ROUNDS)
    cuda = others.pop() if with_cuda else None
    least = min(others)
    row = {"mpsx_us": f"{ours * 1e6:.1f}", f"{project}_us": f"{least * 1e6:.1f}", "ratio": f"{ours / least:.2f}",
           "mpsx_tflops": f"{case.work / ours / 1e12:.1f}", f"{project}_tflops": f"{case.work / least / 1e12:.1f}",
           f"{project}_kernel": case.theirs[others.index(least)][0]}  # fmt: skip
    return row | ({"cuda_us": f"{cuda * 1e6:.1f}", f"{project}_to_cuda": f"{least / cuda:.2f}"} if cuda else {})
