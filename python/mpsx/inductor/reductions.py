"""The reductions of a generated kernel for drivers with SIMD groups, and how threads share the elements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .nesting import text_of

SIMD_WIDTH = 32
DEFINITION = re.compile(r" *auto (\w+) = ")
# How to combine two values, and the value to start with, for floats and for integers.
COMBINE = {"sum": ("CombineSum", "0", "0"), "prod": ("CombineProduct", "1", "1"),
           "max": ("CombineMax", "-INFINITY", "{}::lowest()"),
           "min": ("CombineMin", "INFINITY", "{}::max()")}  # fmt: skip


class Reduction(NamedTuple):
    """A reduction of one value per element. All threads get the result."""

    result: str  # name of the result
    kind: str  # Metal type
    init: str
    combine: str  # functor of metal/lib
    value: str  # of an element
    update: str = "{combine}::apply({partial}, {value})"  # adds a value to a thread's partial result
    count: str = ""  # of the values of MomentSums, or 0 if it differs between columns

    @property
    def shared_kind(self) -> str:
        """The Metal type of what threads exchange."""
        return "float2" if self.kind == "MomentSums" else self.kind

    def updated(self, partial: str) -> str:
        """Return a thread's partial result after the value of one more element."""
        return self.update.format(combine=self.combine, partial=partial, value=self.value)


@dataclass
class Shape:
    """How the elements of a row are distributed. A thread has `batch` vectors at once, `threads` vectors apart."""

    vector: int
    threads: int | str
    batch: int
    is_loaded_once: bool
    is_exact: bool  # whether every thread always has `batch` vectors


def group_thread(name: str, index: str, count: str) -> Iterator[str]:
    """Yield the definition of a GroupThread."""
    yield f"const GroupThread {name} = {{uint3(0), {index}, {count}, {index} % {SIMD_WIDTH}, {SIMD_WIDTH}}};"


def scratch(kind: str) -> str:
    """Return the name of the threadgroup memory for reductions of a type."""
    return "scratch_" + re.sub(r"\W+", "_", kind).strip("_")


def needed(lines: Sequence[Any], values: Sequence[str]) -> list[Any]:
    """Return the lines without the variables that neither the other lines nor some values use, and without the checks
    of these variables."""
    names, found = set(re.findall(r"\w+", " ".join(values))), []
    for line in reversed(lines):
        text = text_of(line)
        optional = DEFINITION.match(text) or re.match(r" *\w+\.check\((\w+)\);", text)
        if not optional or optional[1] in names:
            names |= set(re.findall(r"\w+", text))
            found.append(line)
    return found[::-1]
