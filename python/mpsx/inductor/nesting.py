"""Nested loops whose variables replace divisions and remainders in an index, and the code that can leave a loop."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import sympy
from torch._inductor.codegen.common import DeferredLine, IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesEntry, IterationRangesRoot


def known(*sizes: Any) -> bool:
    """Return whether all sizes are numbers rather than symbols."""
    return all(isinstance(size, int | sympy.Integer) for size in sizes)


@contextmanager
def loop(code: IndentedBuffer, head: str) -> Iterator[None]:
    """Emit a loop whose body is the code written inside the with block."""
    code.writeline(head)
    with code.indent():
        yield
    code.writeline("}")


def digits_of(tree: IterationRangesRoot, entries: list[IterationRangesEntry]) -> list[tuple[int, int]] | None:
    """Return the stride and count of each nested loop, innermost first. With these loops, every entry is a function of
    the loop variables without divisions.

    Returns None if the sizes are symbolic or do not nest.
    """
    points = {sympy.Integer(1), tree.numel, *(p for e in entries for p in (e.divisor, e.divisor * e.length))}
    if not known(*points):
        return None
    ordered = sorted(int(p) for p in points)
    if any(b % a for a, b in pairwise(ordered)):
        return None
    return [(a, b // a) for a, b in pairwise(ordered)] or [(1, 1)]


def text_of(line: Any) -> str:
    """Return the text of a line of an IndentedBuffer."""
    return line.line if isinstance(line, DeferredLine) else line if isinstance(line, str) else ""


def invariant(lines: Sequence[Any], varying: set[str], written: set[str]) -> tuple[list[Any], list[Any]]:
    """Split the body of a loop into lines that may run before the loop, and the others.

    `varying` contains the names of variables that differ between iterations, and `written` those of pointers to buffers
    that the loop may write to. Only definitions and checks outside of blocks can leave the loop.
    """
    before, inside, varying, depth = [], [], set(varying), 0
    for line in lines:
        text = text_of(line)
        found = re.fullmatch(r"\s*(?:(?:const )?\w+ (\w+) = (.*);|\w+\.check\((\w+)\);)", text)
        names = set(re.findall(r"\w+", text))
        if depth == 0 and found and not isinstance(line, DeferredLine) and not names & (varying | written):
            before.append(line)
            continue
        declared = re.match(r"\s*(?:const )?\w+ (\w+)(?: =|;)", text)
        varying |= {declared[1]} if declared else set()
        depth += text.count("{") - text.count("}")
        inside.append(line)
    return before, inside
