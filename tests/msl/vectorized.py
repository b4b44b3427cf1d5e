#!/usr/bin/env python3
"""Check which kernel loops the compiler vectorizes in wide mode (one thread per threadgroup, on a CPU).

    python tests/msl/vectorized.py                      all files: print the loops that should be vectorized but are not
    python tests/msl/vectorized.py softmax avg_pool     only files whose names contain softmax or avg_pool
    python tests/msl/vectorized.py --all avg_pool       print every kernel with its vectorized loops

Loops marked MPSX_VECTORIZE or MPSX_REDUCE should be vectorized. In a kernel with one element per thread, either the
loop over threads or a loop inside it should be vectorized. EXCUSED lists the exceptions. The script reads clang's
optimization records, so the kernel compiler must be clang (ziglang includes it).
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

# Kernels whose loops may stay scalar, with reasons. The keys are patterns for kernel names.
EXCUSED = {
    r"pow_\w+_[iu]\d+": "exponentiation by squaring takes as many steps as the exponent has bits",
    r"nonzero_(scan|fill_\w+)": "each step depends on the previous one",
    r"resample_rows_[a-z]\w+": "the number of steps depends on the number of taps",
    r"(move_runs|pad)_\w+": "memcpy copies a thread's elements",
    r"complex_(cum)?prod": "each step depends on the previous one",
    r"linspace_integer_\w+": "CPUs have no vector instruction for integer division",
    r"bincount": "several numbers may increment the same bin",
    r"nll_loss(_\w+)?": "reads one element per sample at an arbitrary index, and reports errors",
    r"(argmax|argmin|var)_merge_\w+": "a few partial results",
    r"(merge_rows|search)_\w+": "each step of a binary search depends on the previous one",
    r"(gcd|lcm)_\w+": "each step depends on the previous one",
    r"special_(airy|bessel|spherical|zeta|\w*modified_bessel_k|\w*polynomial)\w*": "a CALL of special.def",
    r"(digamma|igammac?|polygamma|standard_gamma_grad|dirichlet_grad)_\w+": "the function has branches and loops",
}
ENTRIES = "<entries>"  # pseudo file name for the loop over threads
RECORD = re.compile(r'\{"(\w+)", MPSX_UNIT_\w+, [\w:]*?(mpsx_entry_\d+)\b')
ENTRY = re.compile(r"void (mpsx_entry_\d+)\(")
LOCATION = re.compile(r"DebugLoc:\s*\{ File: '?([^',]+)'?,\s*Line: (\d+),\s*Column: \d+ \}")


@dataclass
class Kernel:
    """The loops of a kernel that the compiler vectorized or left scalar, each identified by (file, line)."""

    name: str
    vectorized: set[tuple[str, int]] = field(default_factory=set)
    scalar: set[tuple[str, int]] = field(default_factory=set)  # loops with a pragma that requests vectorization

    def findings(self) -> Iterator[str]:
        """Describe loops that should be vectorized but are not."""
        for file, line in sorted(self.scalar - self.vectorized):
            if file != ENTRIES:
                yield f"{self.name}: {file}:{line}: the loop is not vectorized"
            elif not self.vectorized:
                yield f"{self.name}: the loop over threads is not vectorized"


def files(names: list[str]) -> list[Path]:
    """Return the kernel files whose names contain one of `names`, or all files if `names` is empty."""
    return [f for f in sorted(SOURCES.glob("*/*.metal")) if not names or any(n in f.stem for n in names)]


def compile_records(source: Path, isa: str) -> Iterator[tuple[str, str]]:
    """Translate and compile a kernel file. For each translation unit, yield C++ code and clang's optimization
    record."""
    compiler = find_compiler()
    if "clang" not in compiler.description:
        raise SystemExit(f"vectorized: expected clang as the kernel compiler, got {compiler.description}")
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
    for text, record in compile_records(source, isa):
        by_entry = {entry: Kernel(name) for name, entry in RECORD.findall(text)}
        if by_entry.keys() != set(ENTRY.findall(text)):
            raise SystemExit(f"vectorized: {source}: entry points and the table of kernels differ")
        for remark in record.split("--- !")[1:]:
            entry, found = re.search(r"(mpsx_entry_\d+)E", remark), LOCATION.search(remark)
            if not entry or not found:
                continue
            kernel, location = by_entry[entry[1]], (found[1], int(found[2]))
            if remark.startswith("Passed"):
                kernel.vectorized.add(location)
            elif remark.startswith("Failure"):
                kernel.scalar.add(location)
        yield from by_entry.values()


def findings(names: list[str], isa: str = "") -> list[str]:
    """Describe loops that should be vectorized but are not, and EXCUSED patterns that match no such loop.

    Checks files whose names contain one of `names`, or all files if `names` is empty.
    """
    found, excuses = [], set(EXCUSED)
    for source in files(names):
        for kernel in kernels(source, isa):
            excuse = next((pattern for pattern in EXCUSED if re.fullmatch(pattern, kernel.name)), None)
            problems = list(kernel.findings())
            if excuse and problems:
                excuses.discard(excuse)
            elif not excuse:
                found += [f"{str(source).removeprefix(f'{ROOT}/')}: {text}" for text in problems]
    return found + ([] if names else [f"vectorized: no kernel needs the excuse {pattern!r}" for pattern in excuses])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of file names")
    parser.add_argument("--all", action="store_true", help="list every kernel")
    parser.add_argument("--isa", default="", help="x86-64-v3, …; default: this machine")
    arguments = parser.parse_args()
    if arguments.all:
        for source in files(arguments.names):
            for kernel in kernels(source, arguments.isa):
                loops = " ".join(f"{file}:{line}" for file, line in sorted(kernel.vectorized)) or "none"
                print(f"{kernel.name}: vector loops {loops}")
        return
    found = findings(arguments.names, arguments.isa)
    print("\n".join(found) or "all loops are vectorized")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
