#!/usr/bin/env python3
"""Find an operator's kernels, launchers, registrations, tests, and rows of the op-support matrix.

    python tools/where.py softmax
    python tools/where.py nn.functional.gelu

The search is by name: `softmax` also finds `_softmax`, `native_softmax`, and `_softmax_backward_data`. If the operator
has been measured (python tools/opmatrix.py --only softmax), the output also lists kernels that it ran under other
names.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from msl.compiler import find_compiler
from msl.translate import load
from opmatrix import summary
from opmatrix.tags import DRIVERS, SHOWN, TAGS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "opmatrix"
TYPE = re.compile(rf"(_({'|'.join(TAGS)}))+$")

MODULES = ("nn", "linalg", "special", "fft", "masked", "signal", "sparse")  # namespaces that OpInfo names have

Found = tuple[str, str]  # path:line, description


def location(path: Path, line: int) -> str:
    """Format a location as path:line."""
    return f"{path.relative_to(ROOT)}:{line}"


def lines_with(paths: Iterable[Path], pattern: str) -> Iterator[tuple[Path, int, re.Match[str]]]:
    """Yield every line that matches the pattern."""
    compiled = re.compile(pattern)
    for path in sorted(paths):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = compiled.search(line)
            if match:
                yield path, number, match


def spelled(name: str) -> str:
    """Return a pattern that matches the names of related aten operators."""
    return rf"_?(?:native_)?{re.escape(name)}(?:_backward\w*|_forward\w*|_)?"


def registrations(name: str) -> Iterator[Found]:
    """Yield the rows of .def tables and the registrations that match a name."""
    for path, line, match in lines_with(ROOT.glob("metal/**/*.def"), rf"^MPSX_\w+\(({spelled(name)})\s*,"):
        yield location(path, line), f"row {match[1]}"
    call = rf'\b(?:impl\(|op<)\s*"({spelled(name)}(?:\.\w+)?)"'
    for path, line, match in lines_with(ROOT.glob("src/**/*.cpp"), call):
        yield location(path, line), match[1] + (" (vendor)" if "vendor" in path.parts else "")


def launchers(name: str) -> Iterator[Found]:
    """Yield the registered functions, and the files that include a table with a row of this name."""
    named = rf'\b(?:impl\(|op<)\s*"{spelled(name)}(?:\.\w+)?",\s*(?:\w+<"\w+",\s*)?&(?:\w+::)*(\w+)'
    for path, _, match in lines_with(ROOT.glob("src/**/*.cpp"), named):
        for _, line, found in lines_with([path], rf"^[\w:<>,&* ]+\b({match[1]})\("):
            yield location(path, line), found[1]
    for table, _, match in lines_with(ROOT.glob("metal/**/*.def"), rf"^MPSX_\w+\(({spelled(name)})\s*,"):
        for path, line, _ in lines_with(ROOT.glob("src/ops/**/*.cpp"), rf'#include ".*\b{table.name}"'):
            yield location(path, line), f"reads the row {match[1]} of {table.name}"


def observed(name: str) -> dict[str, set[str]]:
    """Map each operator to the kernels that ran when the matrix was measured."""
    found: dict[str, set[str]] = {}
    for driver in DRIVERS:
        path = RESULTS / f"{driver}.jsonl"
        for line in path.read_text().splitlines() if path.exists() else ():
            record = json.loads(line)
            if is_row_of(record["op"], name):
                found.setdefault(record["op"], set()).update(record.get("kernels", ()))
    return found


def kernels(name: str, ran: set[str]) -> Iterator[Found]:
    """Yield kernels that ran or that are named after the operator, grouped by the function that they instantiate."""
    word = re.compile(rf"^{re.escape(name)}(_|$)")
    stems = {TYPE.sub("", kernel) for kernel in ran}
    preprocessor = find_compiler().preprocessor()
    for path in sorted(ROOT.glob("metal/*/*.metal")):
        texts = [path.read_text(), *(table.read_text() for table in path.parent.glob("*.def"))]
        if not any(part in text for text in texts for part in {name, *(stem.split("_")[0] for stem in stems)}):
            continue
        source, module, _ = load(str(path), [str(ROOT / "metal")], [], preprocessor)
        by_function: dict[str, list[str]] = {}
        for instance in module.instances:
            stem = TYPE.sub("", instance.host_name)
            if word.search(stem) or stem in stems:
                by_function.setdefault(source.location(instance.kernel.token), []).append(instance.host_name)
        for where, names in by_function.items():
            file, line, *_ = where.rsplit(":", 2) if where.count(":") > 1 else where.split(":")
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield location((ROOT / file).resolve(), int(line)), ", ".join(names[:3]) + more


def tests(name: str) -> Iterator[Found]:
    """Yield the test files that mention the name, with the first matching line."""
    seen: dict[Path, list[int]] = {}
    for path, line, _ in lines_with(ROOT.glob("tests/**/*.py"), rf"\b_?{re.escape(name)}\b"):
        seen.setdefault(path, []).append(line)
    for path, numbers in sorted(seen.items(), key=lambda item: (item[0].stem != f"test_{name}", -len(item[1]))):
        yield location(path, numbers[0]), f"{len(numbers)} line{'s' if len(numbers) > 1 else ''}"


def is_row_of(operator: str, name: str) -> bool:
    """Return whether a row belongs to a name. For example, nn.functional.softmax and softmax.with_dtype belong to
    softmax, and linalg.eigh belongs to linalg_eigh."""
    belongs = re.compile(rf"(^|\.){re.escape(name)}(\.|$)")
    return any(belongs.search(text) for text in (operator, operator.replace("linalg.", "linalg_").replace(
        "special.", "special_")))  # fmt: skip


def plain_name(operator: str) -> str:
    """Return the name to search for. It is softmax for nn.functional.softmax, aten::_softmax, and _softmax.out, and
    linalg_eigh for _linalg_eigh, the form in which warnings name operators."""
    words = operator.removeprefix("aten::").removeprefix("torch.").split(".")
    name = words[-1] if words[0] in MODULES else words[0]
    return re.sub(r"_(forward|backward)$", "", name.strip("_")) or name


def matrix(name: str) -> Iterator[Found]:
    """Yield the committed rows of the matrix, by driver."""
    for driver in DRIVERS:
        committed = summary.load(driver)
        for operator, direction, ours, theirs in committed.rows() if committed else ():
            if is_row_of(operator, name):
                parts = [f"{status} {cell}" for status in SHOWN if (cell := summary.cell(ours, status)) != "-"]
                mps = summary.cell(theirs, "passes")
                yield f"{driver} {operator} {direction}", "; ".join(parts) + f" (on PyTorch's MPS {mps})"


def main() -> None:
    """Run the command-line interface."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="softmax, nn.functional.softmax, aten::_softmax, or a name from a warning")
    name = plain_name(parser.parse_args().name)
    ran = observed(name)
    sections = {
        "kernels": kernels(name, set().union(*ran.values())),
        "launchers": launchers(name),
        "registrations": registrations(name),
        "tests": tests(name),
        "matrix": matrix(name),
    }
    empty = True
    for title, found in sections.items():
        rows = list(dict.fromkeys(found))
        empty = empty and not rows
        print(f"{title}:" if rows else f"{title}: none")
        width = max((len(at) for at, _ in rows), default=0)
        for at, what in rows:
            print(f"  {at:<{width}}  {what}")
    sys.exit(f"where: found nothing named {name}" if empty else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly in `where.py softmax | head`
    main()
