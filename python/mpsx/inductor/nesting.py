"""Nested loops whose variables replace divisions and remainders in an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import sympy
from torch._inductor.codegen.common import IndentedBuffer
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
