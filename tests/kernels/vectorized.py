#!/usr/bin/env python3
"""Which loops of the kernels the compiler made vector loops of, in wide mode (one thread a threadgroup, on a CPU).

    python tests/kernels/vectorized.py                      every kernel file: what should be vectorised and is not
    python tests/kernels/vectorized.py softmax avg_pool     files whose names contain this
    python tests/kernels/vectorized.py --all avg_pool       every kernel with its vector loops

A loop should be vectorised where the source says so (MPSX_VECTORIZE, MPSX_REDUCE), and so should something in a kernel
of one element a thread: its loop over threads, or one inside. Kernels for which that makes no sense are EXCUSED below.
Needs a clang as the compiler of kernels (ziglang's is one): the answer comes from its optimisation records.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "metal"
sys.path.insert(0, str(ROOT / "tools"))

from msl.compiler import find_compiler  # noqa: E402
from msl.translate import translate  # noqa: E402

# Kernels by host name, and why not.
EXCUSED = {
    r"pow_\w+_[iu]\d+": "powers of integers by squaring take as many steps as the exponent has bits",
    r"nonzero_(scan|fill_\w+)|order_(scan|place)": "each step needs the last",
    r"resample_rows_[a-z]\w+": "as many steps as an element has taps",
    r"(move_runs|pad)_\w+": "a thread's elements are copied by memcpy",
    r"complex_(cum)?prod": "each step needs the last",
    r"linspace_integer_\w+": "CPUs divide integers one by one",
    r"bincount": "two numbers may belong to one bin",
    r"nll_loss(_\w+)?": "one element a sample, anywhere in its row, and errors are reported",
    r"(argmax|argmin|var)_merge_\w+": "a few partial results",
    r"(merge_rows|search)_\w+": "each step of a search by halves needs the last",
    r"(gcd|lcm)_\w+": "each step needs the last",
    r"special_(airy|bessel|spherical|zeta|\w*modified_bessel_k|\w*polynomial)\w*": "a CALL of special.def",
    r"(digamma|igammac?|polygamma|standard_gamma_grad|dirichlet_grad)_\w+": "the same",
}
ENTRIES = "<entries>"  # the file that the loop over threads is said to be in
RECORD = re.compile(r'\{"(\w+)", MPSX_UNIT_\w+, [\w:]*?(mpsx_entry_\d+)\b')
ENTRY = re.compile(r"void (mpsx_entry_\d+)\(")
PLACE = re.compile(r"DebugLoc:\s*\{ File: '?([^',]+)'?,\s*Line: (\d+),\s*Column: \d+ \}")


@dataclass
class Kernel:
    """The compiler's remarks about one kernel's loops, by place (file, line)."""

    name: str
    vectorised: set[tuple[str, int]] = field(default_factory=set)
    refused: set[tuple[str, int]] = field(default_factory=set)  # though the source asked for it

    def findings(self) -> Iterator[str]:
        """The loops that should be vectorized and are not."""
        for file, line in sorted(self.refused - self.vectorised):
            if file != ENTRIES:
                yield f"{self.name}: {file}:{line}: the loop is not vectorised"
            elif not self.vectorised:
                yield f"{self.name}: the loop over threads is not vectorised"


def files(names: list[str]) -> list[Path]:
    """The kernel files whose names contain one of these; all without any."""
    return [f for f in sorted(SOURCES.glob("*/*.metal")) if not names or any(n in f.stem for n in names)]


def compile_records(source: Path, isa: str) -> Iterator[tuple[str, str]]:
    """Translates and compiles a kernel file; yields the C++ text and the compiler's record of it."""
    compiler = find_compiler()
    if "clang" not in compiler.description:
        raise SystemExit(f"vectorized: expected clang as the compiler of kernels, got {compiler.description}")
    with tempfile.TemporaryDirectory() as folder:
        paths, _ = translate(str(source), f"{folder}/{source.parent.name}_{source.stem}.cpp", [str(ROOT / "metal")], [],
                             compiler.preprocessor(), root=str(ROOT))  # fmt: skip
        for path in paths:
            flags = [f for f in compiler.clang_flags(isa, "wide") if f != "-g0"]
            record = path + ".yaml"
            subprocess.run(
                [*compiler.clang, *flags, *compiler.source_flags(Path(path).name), "-gline-tables-only",
                 "-fsave-optimization-record", f"-foptimization-record-file={record}",
                 "-foptimization-record-passes=loop-vectorize|transform-warning", "-c", path, "-o", path + ".o"],
                check=True,
            )  # fmt: skip
            yield Path(path).read_text(), Path(record).read_text()


def kernels(source: Path, isa: str) -> Iterator[Kernel]:
    """Every kernel of a file with what became of its loops."""
    for text, record in compile_records(source, isa):
        by_entry = {entry: Kernel(name) for name, entry in RECORD.findall(text)}
        if by_entry.keys() != set(ENTRY.findall(text)):
            raise SystemExit(f"vectorized: {source}: entry points and the table of kernels differ")
        for remark in record.split("--- !")[1:]:
            entry, place = re.search(r"(mpsx_entry_\d+)E", remark), PLACE.search(remark)
            if not entry or not place:
                continue
            kernel, at = by_entry[entry[1]], (place[1], int(place[2]))
            if remark.startswith("Passed"):
                kernel.vectorised.add(at)
            elif remark.startswith("Failure"):
                kernel.refused.add(at)
        yield from by_entry.values()


def findings(names: list[str], isa: str = "") -> list[str]:
    """The loops that should be vectorized and are not, in files whose names contain one of these; unused excuses."""
    found, excuses = [], set(EXCUSED)
    for source in files(names):
        for kernel in kernels(source, isa):
            excuse = next((pattern for pattern in EXCUSED if re.fullmatch(pattern, kernel.name)), None)
            of_kernel = list(kernel.findings())
            if excuse and of_kernel:
                excuses.discard(excuse)
            elif not excuse:
                found += [f"{str(source).removeprefix(f'{ROOT}/')}: {text}" for text in of_kernel]
    return found + ([] if names else [f"vectorized: nothing needs the excuse {pattern!r}" for pattern in excuses])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="files whose names contain this")
    parser.add_argument("--all", action="store_true", help="every kernel, not only what is wrong")
    parser.add_argument("--isa", default="", help="x86-64-v3, …; default: this machine")
    arguments = parser.parse_args()
    if arguments.all:
        for source in files(arguments.names):
            for kernel in kernels(source, arguments.isa):
                loops = " ".join(f"{file}:{line}" for file, line in sorted(kernel.vectorised)) or "none"
                print(f"{kernel.name}: vector loops {loops}")
        return
    found = findings(arguments.names, arguments.isa)
    print("\n".join(found) or "every loop that should be vectorised is")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
