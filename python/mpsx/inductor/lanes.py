"""Vectorized loops in kernels for drivers that run one thread per threadgroup.

Divisions in an index are slow and hide contiguous loads, so loops whose indices would need divisions become nested
loops. The innermost one, the loop over lanes, is vectorized. What is the same for all of its iterations, such as the
row of an embedding, is computed before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import sympy
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesEntry, IterationRangesRoot
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from .. import _runtime
from .checks import CheckedKernel
from .nesting import digits_of, invariant, known, loop, text_of

LANES = 64
MIN_ELEMENTS, MAX_ELEMENTS = 16, 4096  # elements per thread in a kernel without a reduction
SEQUENTIAL = re.compile(r"\breturn;|::atomic_add\(")  # loops with these lines are not vectorized


def runs_loops() -> bool:
    """Return whether the driver runs one thread per threadgroup, so that generated kernels are loops over elements."""
    return _runtime.driver()["simd_width"] == 1


def split_loops(digits: list[tuple[int, int]], inner: int) -> int:
    """Return how many of the nested loops (see digits_of) a thread should run, at least up to `inner`. May split one
    loop into two. The threads share the iterations of the outer one."""
    stride, length = digits[inner]
    count = max(d for d in sympy.divisors(length) if d == 1 or d * stride <= MAX_ELEMENTS)
    if count < MIN_ELEMENTS:  # the last block is shorter
        count = max(1, MAX_ELEMENTS // stride // LANES) * LANES
    if count < length:
        digits[inner : inner + 1] = [(stride, count), (stride * count, -(-length // count))]
        return inner + 1
    elements = stride * count
    for i in range(inner + 1, len(digits)):
        stride, length = digits[i]
        count = max(d for d in sympy.divisors(length) if d == 1 or d * elements <= MAX_ELEMENTS)
        if count < length:
            if count > 1:
                digits[i : i + 1] = [(stride, count), (stride * count, length // count)]
            return i + (count > 1)
        elements *= count
    return len(digits)


class LaneKernel(CheckedKernel):
    """A MetalKernel whose threads loop over elements."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.threads = 0  # if loops in a kernel without a reduction determine it
        self.column_entries: list[IterationRangesEntry] = []
        self.contiguous_columns = False  # whether a thread's columns are contiguous in every index variable

    def prepare_indexing(self, index: sympy.Expr) -> sympy.Expr:
        """Simplify an index. Assign each quotient and remainder of an index variable to a new variable."""
        index = super().prepare_indexing(index)
        for part in index.atoms(FloorDiv, ModularIndexing):
            node = self.range_tree_nodes.get(part.args[0])
            if node is None or not known(*part.args[1:], node.divisor, node.length):
                continue
            divisor = part.args[1]
            length = part.args[2] if isinstance(part, ModularIndexing) else node.length // divisor
            if node.length % (divisor * length) == 0:
                entry = node.root.lookup(node.divisor * divisor, length)
                entry.codegen()
                index = index.subs(part, entry.symbol())
        return index

    def call_kernel(self, *args: Any, **kwargs: Any) -> None:
        """Emit a launch."""
        trees = self.active_range_trees() if self.threads else []  # there is exactly one
        sizes = [tree.numel for tree in trees]
        for tree in trees:
            tree.numel = sympy.Integer(self.threads)
        super().call_kernel(*args, **kwargs)
        for tree, size in zip(trees, sizes, strict=True):
            tree.numel = size

    def _nest_loops(self) -> None:
        """Let each thread of a kernel without a reduction process the elements of some innermost loops. If the first
        one is short, such as one over the elements of a filter, the loop over lanes is the one around it."""
        trees, entries = self.active_range_trees(), [*self.range_tree_nodes.values()]
        digits = digits_of(trees[0], entries) if len(trees) == 1 else None
        if not digits or len(digits) == 1:
            return
        inner = 0 if digits[0][1] >= MIN_ELEMENTS else 1
        length = digits[inner][1]
        if length < MIN_ELEMENTS:
            return
        loops = split_loops(digits, inner)
        code, body = IndentedBuffer(), self.body
        (tree,) = trees
        names = [f"{tree.prefix}digit_{i}" for i in range(len(digits))]
        self.threads = 1
        for name, (_, count) in zip(names[loops:], digits[loops:], strict=True):
            code.writeline(
                f"const {self.index_dtype} {name} = {self.index_dtype}({tree.name}) / {self.threads} % {count};"
            )
            self.threads *= count
        count = digits[inner][1]
        code.writeline(self._lane_count(str(length), f"{count} * {names[inner + 1]}" if count < length else "0", count))
        self.indexing_code.clear()
        with ExitStack() as stack:
            for i in (*reversed(range(inner + 1, loops)), *range(inner)):
                stack.enter_context(
                    loop(code, f"for (int {names[i]} = 0; {names[i]} < {digits[i][1]}; ++{names[i]}) {{")
                )
            lanes = stack.enter_context(self._lanes(code, None))
            lanes.writeline(f"const int {names[inner]} = lane;")
            lanes.writelines(self._index_variables(tree, entries, digits, names))
            lanes.splice(body)
        self.body = code

    def _numel(self, tree: IterationRangesRoot) -> str:
        return str(tree.numel) if known(tree.numel) else f"{self.index_dtype}({tree.prefix}numel)"

    def _lane_count(self, numel: str, first: str, block: int = LANES) -> str:
        """Return the definition of `lanes`, the number of elements from `first` on, at most `block`."""
        if numel.isdigit() and int(numel) % block == 0:  # the compiler unrolls loops of constant length
            return f"constexpr int lanes = {block};"
        return f"const int lanes = int(metal::min({self.index_dtype}({block}), {self.index_dtype}({numel} - {first})));"

    def _unit_columns(self) -> list[IterationRangesEntry]:
        """Return the index variables that differ between adjacent columns."""
        return [e for e in self.column_entries if e.divisor == 1]

    @contextmanager
    def _lanes(self, code: IndentedBuffer, columns: IterationRangesRoot | None) -> Iterator[IndentedBuffer]:
        """Emit the loop over lanes, with the lines written to the result. If `columns` is set, each lane uses the grid
        position of its column."""
        body = IndentedBuffer()
        if columns:
            body.writeline(f"const {self.index_dtype} {columns.name} = first + lane;")
            if self.contiguous_columns:  # all other index variables are the same for all lanes
                body.writelines(f"const {self.index_dtype} {e.name} = first_{e.name} + lane;"
                                for e in self._unit_columns())  # fmt: skip
            else:
                body.splice(self.indexing_code)
        yield body
        before, lines = invariant(body._lines, {"lane"}, self._written())
        with loop(code, "{") if before else nullcontext():
            code.writelines(before)
            if not any(SEQUENTIAL.search(text_of(line)) for line in lines):  # no two lanes write the same element
                # Clang would unroll a loop of constant length instead of vectorizing it. Reductions profit from that,
                # because it keeps their accumulators in registers.
                unroll = "" if self.features.is_reduction() else " unroll(disable)"
                code.writeline(f"#pragma clang loop vectorize(assume_safety){unroll}")
            with loop(code, "for (int lane = 0; lane < lanes; ++lane) {"):
                code.writelines(lines)

    def _written(self) -> set[str]:
        """Return the pointers to buffers that the kernel writes."""
        args, outputs = self.args, self.args.output_buffers
        inputs = [pointer for name, pointer in args.input_buffers.items() if name in outputs]
        in_place = [getattr(buffer, "inner_name", "") for buffer in args.inplace_buffers.values()]
        return {str(pointer) for pointer in (*outputs.values(), *inputs, *in_place)}

    def _index_variables(self, tree: IterationRangesRoot, entries: list[IterationRangesEntry],
                   digits: list[tuple[int, int]] | None, names: list[str]) -> Iterator[str]:  # fmt: skip
        """Yield definitions of the index variables that a stage uses."""

        def weighted(divisor: Any, length: Any) -> str:
            pairs = ((stride, name) for (stride, _), name in zip(digits, names, strict=True))
            within = [(stride // divisor, name) for stride, name in pairs if divisor <= stride < divisor * length]
            return " + ".join(f"{weight} * {name}" if weight > 1 else name for weight, name in within) or "0"

        yield f"const {self.index_dtype} {tree.name} = {weighted(1, tree.numel) if digits else names[0]};"
        for e in entries:
            if e.root is tree:
                value = weighted(e.divisor, e.length) if digits else self.sexpr(self.rename_indexing(e.expr))
                yield f"const {self.index_dtype} {e.name} = {value};"
