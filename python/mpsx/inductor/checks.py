"""Checks in generated kernels that do not leave the kernel.

A return in a loop would prevent its vectorization on CPUs. On GPUs, the other threads of the threadgroup would wait for
the thread at the next barrier. So a kernel goes on with index 0, and reports the error at its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sympy
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.mps import MetalKernel
from torch._inductor.virtualized import V

from .steps import is_value

HEADER = "lib/generated_checks.h"


class CheckedKernel(MetalKernel):
    """A MetalKernel that reports indices out of range, and assertions that fail, at its end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ranges: dict[str, str] = {}  # size of a dimension -> name of an IndexRange
        self.checked: dict[str, set[str]] = {}  # variable -> names of the ranges that check it
        self.assertions: dict[str, str] = {}  # message -> name of a flag

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        """Emit the check of an index. Index 0 must exist for the kernel to go on."""
        if not (lower or upper):
            return
        if not (isinstance(expr, sympy.Symbol) and is_value(expr) and V.graph.sizevars.statically_known_lt(0, size)):
            super().check_bounds(expr, size, lower, upper)
            return
        self.headers.add("error")
        name = self.ranges.setdefault(self.index_to_str(size), f"range{len(self.ranges)}")
        self.checked.setdefault(expr.name, set()).add(name)
        line = f"{name}.check({expr});"
        if line not in self.compute._lines:
            self.compute.writeline(line)

    def device_assert_async(self, cond: CSEVariable, msg: str) -> None:
        """Emit an assertion."""
        self.headers.add("error")
        name = self.assertions.setdefault(msg, f"failed{len(self.assertions)}")
        self.compute.writeline(f"{name} |= !{cond};")

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        """Emit a store. After an index out of range, it must not write to index 0."""
        super().store(name, index, value, mode)
        symbols = self.prepare_indexing(index).free_symbols
        ranges = {f"!{r}.failed()" for s in symbols for r in self.checked.get(s.name, ())}
        if ranges:
            lines = (self.compute if self.inside_reduction else self.stores)._lines
            lines[-1] = lines[-1]._new_line(f"if ({' && '.join(sorted(ranges))}) {lines[-1].line}")

    def check_definitions(self) -> Iterator[str]:
        """Yield the definitions of the variables for checks, for the start of the kernel."""
        yield from (f"IndexRange {name} = {{{size}}};" for size, name in self.ranges.items())
        yield from (f"bool {name} = false;" for name in self.assertions.values())

    def check_reports(self) -> Iterator[str]:
        """Yield the code that reports errors, for the end of the kernel."""
        for size, name in self.ranges.items():
            text = f'"Index ", {name}.invalid(), " out of range [0, ", {size}, ")"'
            yield f"if ({name}.failed()) TORCH_REPORT_ERROR(error_buf, {text});"
        for message, name in self.assertions.items():
            yield f"if ({name}) TORCH_REPORT_ERROR(error_buf, {json.dumps(message)});"
