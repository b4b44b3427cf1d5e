"""Inductor reductions of columns for drivers with SIMD groups, such as the sum of each channel in channels-last format.

Where adjacent columns are adjacent in memory, a threadgroup reduces a tile of columns. Adjacent threads load adjacent
vectors of a row, each of several columns. Threads that load different rows of the same columns combine their results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesEntry
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv

from .choices import processors
from .coalescing import CallAwareKernel
from .nesting import known, loop
from .reductions import SIMD_WIDTH, Reduction, Shape, scratch
from .rows import MAX_THREADS, RowKernel
from .vectors import replaced

THREADS = 256  # at least, if there are enough rows or columns for the device's cores
MIN_ROWS = 8  # rows per thread in larger threadgroups
SEGMENT_THREADS = 8  # at least, in a row of a tile: 128 bytes if vectors have 16
MAX_VECTOR = 8
LOADS = 8  # vectors that a thread loads at once
MAX_STRIPS = 16  # rows that a thread keeps in registers
CORE_REGISTERS = 65536  # 32-bit registers of a core, shared by its threads
MAX_REGISTERS, OTHER_REGISTERS = 128, 24  # per thread: at most, and for neither vectors nor results
WORDS = {"long": 2, "MomentSums": 3, "Indexed<int>": 3, "Indexed<long>": 4}  # of results, otherwise 1


class Launch(NamedTuple):
    """One dimension of a launch. The call of the kernel has these instead of its index variables."""

    numel: sympy.Expr
    is_reduction: bool


def reduces_columns(features: Any) -> bool:
    """Return whether most loads of a reduction are contiguous across columns rather than along them."""
    rows = columns = 0
    for node in features.scheduler_nodes():
        body = node._body
        reduced, outer = body.reduce_vars, body.iter_vars
        for index in body.get_read_exprs():
            if not index.free_symbols & {*reduced}:
                continue
            steps = V.graph.sizevars.stride_hints(index, [*reduced, *outer])
            if 1 in steps[: len(reduced)]:
                rows += 1
            elif 1 in steps:
                columns += 1
    return columns > rows


class ColumnKernel(CallAwareKernel, RowKernel):
    """A MetalKernel that reduces a tile of columns per threadgroup."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        (self.columns,) = (tree for tree in self.range_trees if not tree.is_reduction)
        self.vector_tree = self.columns
        self.finished: list[Reduction] = []  # whose results are known

    # Inductor calls these methods to define the kernel's elements.

    def codegen_iteration_ranges_entry(self, entry: IterationRangesEntry) -> None:
        """Define no index variable yet. Rows and columns differ between the elements of a thread."""

    def _moments(self, value: Any) -> tuple[CSEVariable, ...]:
        """Reduce to the mean, the sum of squared deviations, and the count, in one pass."""
        return self._moment_sums(f"float({value})", "float(row_size)")

    def _merged_moments(self, value: str) -> tuple[CSEVariable, ...]:
        """Reduce moments, with counts that may differ between columns."""
        return self._moment_sums(value, "0.0f")

    def _moment_sums(self, value: str, count: str) -> tuple[CSEVariable, ...]:
        moments = self._reduce("MomentSums", "{0.0f, 0.0f, 0.0f, 0.0f}", "CombineSum", value, torch.float32)
        update, line = "add_to_moments({partial}, {value}, uint(base / row_threads) + strip)", f"reduce {moments}"
        self.reductions[line] = self.reductions[line]._replace(update=update, count=count)
        return self._fields(moments)

    # Emission of the kernel

    def codegen_kernel(self, *args: Any) -> str:
        """Emit the kernel."""
        text = super().codegen_kernel(*args)
        text = text.replace(f"auto {self.columns.name} = thread_pos.x;", "const uint tile = thread_pos.x;")
        attribute = r"max_total_threads_per_threadgroup\(\d+\)"
        return re.sub(attribute, f"max_total_threads_per_threadgroup({self.thread_limit})", text)

    def active_range_trees(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the index variables. While a call is emitted, return the dimensions of the launch, which has one
        threadgroup per tile."""
        trees = super().active_range_trees(*args, **kwargs)
        if not self._in_call:
            return trees
        tile = self.lanes * self.shape.vector
        tiles = FloorDiv(self.columns.numel + tile - 1, tile)
        launch = {self.columns.name: Launch(tiles, False),
                  self.row.name: Launch(sympy.Integer(self.shape.threads), True)}  # fmt: skip
        return [launch[tree.name] for tree in trees]

    def _sort_accesses(self) -> None:
        """Find the accesses that move vectors, and those that are the same for all rows."""
        self.vectors, self.uniform, self.factors, self.loaded = [], [], set(), set()
        self.contiguous = set()  # uniform accesses of adjacent columns
        rows = {symbol for symbol, entry in self.range_tree_nodes.items() if entry.root.is_reduction}
        for access in self._used_accesses():
            in_rows = bool(access.index.free_symbols & rows)
            moves_vectors = self._moves_vectors(access)
            if not in_rows and not self._is_late(access):
                self.uniform.append(access)
                self.contiguous |= {access} if moves_vectors else set()
            elif moves_vectors and in_rows:
                self.vectors.append(access)

    def _vector_size(self) -> tuple[int, list[sympy.Expr]]:
        """Return the number of adjacent columns per thread, and the strides that must be multiples of it."""
        size, conditions = super()._vector_size()
        return min(size, MAX_VECTOR), conditions

    def _plan_row(self) -> Shape:
        """Choose the number of columns and rows of a tile that are loaded at once."""
        size, self.conditions = self._vector_size()
        rows, columns = self.row.numel, self.columns.numel
        loads = [access for access in self.vectors if not access.is_store]
        segment = max(SEGMENT_THREADS, SIMD_WIDTH // size)  # narrow vectors need more threads to fill a cache line
        if known(columns):
            segment = min(segment, power_of_two(-(-int(columns) // size)))
        down = THREADS // segment
        if known(rows):
            limit = MAX_THREADS if self._result_registers(size) <= OTHER_REGISTERS // 2 else MAX_THREADS // 2
            down = min(power_of_two(-(-int(rows) // MIN_ROWS)), limit // segment)
        self.lanes = max(THREADS // down, segment)
        if known(columns):
            self.lanes = min(self.lanes, power_of_two(-(-int(columns) // size)))
            while self.lanes > segment and self.lanes * size * processors() > columns:
                self.lanes //= 2  # fewer threads in more threadgroups
        while known(rows) and down < rows and self.lanes * down < THREADS:
            down *= 2
        self.down = down
        threads = self.lanes * down
        several = not known(columns) or columns > self.lanes * size * processors()  # threadgroups per core
        streams = several and not any(access.is_store for access in self.vectors)  # needs each element once
        registers = min(MAX_REGISTERS, CORE_REGISTERS // (MAX_THREADS if streams else threads))
        registers -= OTHER_REGISTERS + self._result_registers(size)
        strip = sum(-(-size * access.dtype.itemsize // 4) for access in loads)
        batch = max(1, min(LOADS // max(1, len(loads)), registers // max(1, strip)))
        # With this limit, the compiler leaves registers for the other threadgroups of a core.
        self.thread_limit = MAX_THREADS if streams and batch * strip <= registers else threads
        if not known(rows):
            return Shape(size, threads, batch, False, False)
        strips = -(-int(rows) // down)
        once = strips * strip <= registers and strips <= MAX_STRIPS
        batch = strips if once else batch
        fills_tiles = known(columns) and int(columns) % (self.lanes * size) == 0
        return Shape(size, threads, batch, once, fills_tiles and int(rows) % (down * batch) == 0)

    def _result_registers(self, size: int) -> int:
        """Return the number of registers per thread for results, and for vectors that are the same for all rows."""
        loaded = sum(size * access.dtype.itemsize // 4 for access in self.contiguous if not access.is_store)
        return loaded + size * sum(WORDS.get(r.kind, 1) for r in self.reductions.values())

    def _threads(self) -> Iterator[str]:
        """Yield the definitions of the thread's rows and columns."""
        kind, columns = self.index_dtype, self.columns
        numel = str(columns.numel) if known(columns.numel) else f"{kind}({columns.prefix}numel)"
        yield f"const uint group_index = {self.row.name};"
        yield f"const uint row_thread = group_index / {self.lanes}, row_threads = {self.down};"
        yield f"const {kind} first = {kind}(tile * {self.lanes} + group_index % {self.lanes}) * {self.shape.vector};"
        yield f"const bool has_columns = first < {numel};"
        for entry in self._entries():
            value = self._first(self.sexpr(self.rename_indexing(entry.expr)))
            yield f"const {kind} first_{entry.name} = {value};"

    def _scratch_size(self) -> int:
        """Return the number of values in threadgroup memory that a reduction needs."""
        threads = self.shape.threads
        return threads // max(self.lanes, min(SIMD_WIDTH, threads)) * self.lanes * self.shape.vector

    def _without_uniform_loads(self, code: IndentedBuffer) -> list[Any]:
        """Emit the loads that are the same for all rows. Return the kernel's lines with their results instead."""
        lines = self._kept_lines()
        for i, access in enumerate(access for access in self.uniform if not access.is_store):
            index, kind = self.index_to_str(access.index), self.dtype_to_str(access.dtype)
            address = f"{access.pointer} + ({self._first(index)})"
            if access in self.contiguous:
                size, name = self.shape.vector, f"column_value{i}"
                code.writeline(f"PackedVec<{kind}, {size}> {name};")
                code.writeline(f"if (has_columns) {name} = load_elements<{size}>({address}, aligned);")
                lines = [replaced(line, f"{access.pointer}[{index}]", f"{name}.get(lane)") for line in lines]
        return lines

    def _rows(self) -> list[IterationRangesEntry]:
        return [entry for entry in self.range_tree_nodes.values() if entry.root is self.row]

    @contextmanager
    def _strips(self, code: IndentedBuffer) -> Iterator[None]:
        """Emit a loop over the thread's rows, with their index variables."""
        shape, kind, name = self.shape, self.index_dtype, self.row.name
        with ExitStack() as stack:
            stack.enter_context(loop(code, f"MPSX_UNROLL for (uint strip = 0; strip < {shape.batch}; ++strip) {{"))
            code.writeline(f"const {kind} {name} = base + {kind}(strip * row_threads + row_thread);")
            if not shape.is_exact:
                stack.enter_context(loop(code, f"if ({name} < row_size && has_columns) {{"))
            self._define_row(code)
            yield

    def _define_row(self, code: IndentedBuffer) -> None:
        for entry in self._rows():
            code.writeline(f"const {self.index_dtype} {entry.name} = {self.sexpr(self.rename_indexing(entry.expr))};")

    def _lane(self, code: IndentedBuffer, lines: Sequence[Any], values: Sequence[str] = ()) -> None:
        """Emit the code of one element, for its stores and for some values."""
        results = [f"auto {r.result} = partial_{r.result}[lane];" for r in self.finished]
        super()._lane(code, [*results, *lines], values)

    def _end_batch(self, code: IndentedBuffer, reductions: Sequence[Reduction]) -> None:
        """Emit better estimates of the means after 1, 2, 4, 8, ... batches."""
        partials = [self._partial(r) for r in reductions if r.kind == "MomentSums"]
        if partials:
            code.writeline(f"const uint batches = uint(base / {self.down * self.shape.batch});")
            lanes = f"MPSX_UNROLL for (uint lane = 0; lane < {self.shape.vector}; ++lane)"
            with loop(code, "if ((batches & (batches + 1)) == 0) {"):
                code.writelines(f"{lanes} {partial} = centered({partial});" for partial in partials)

    def _row_elements(self) -> int:
        return 1

    def _partial(self, r: Reduction) -> str:
        return f"partial_{r.result}[lane]"

    def _define_partial(self, code: IndentedBuffer, r: Reduction) -> None:
        code.writeline(f"{r.kind} partial_{r.result}[{self.shape.vector}];")
        code.writeline(f"MPSX_UNROLL for (uint lane = 0; lane < {self.shape.vector}; ++lane) "
                       f"partial_{r.result}[lane] = {r.init};")  # fmt: skip

    def _combine_threads(self, code: IndentedBuffer, r: Reduction) -> None:
        """Emit the reduction of the results of threads with the same columns."""
        function, count = f"reduce_columns<{r.combine}, ", ""
        if r.kind == "MomentSums":
            function, count = "reduce_moments<", f", {r.count}"
        code.writeline(f"{function}{self.shape.vector}, {self.lanes}, {self.shape.threads}>"
                       f"(partial_{r.result}, {scratch(r.shared_kind)}, group_index{count});")  # fmt: skip
        self.finished.append(r)

    def _store_once(self, code: IndentedBuffer, lines: Sequence[Any]) -> None:
        """Emit the stores of the columns' results."""
        with loop(code, "if (row_thread == 0 && has_columns) {"):
            code.writeline(f"const {self.index_dtype} {self.row.name} = 0; const uint strip = 0;")
            self._define_row(code)
            with loop(code, f"MPSX_UNROLL for (uint lane = 0; lane < {self.shape.vector}; ++lane) {{"):
                self._lane(code, lines)


def power_of_two(n: int) -> int:
    """Return the smallest power of two that is not less than n."""
    return 1 << max(0, n - 1).bit_length()
