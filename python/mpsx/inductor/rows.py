"""Inductor reductions for drivers with SIMD groups: the threads of a threadgroup reduce a row together.

Adjacent threads access adjacent vectors of elements. A pass over the row computes the inputs of one or more reductions,
or the results. Every pass repeats the arithmetic of the passes before, unless the compiler keeps its results. If a row
fits in registers, all passes share its loads. Otherwise, each pass loads the row again in batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import DTYPE_TO_COMPUTATION_DTYPE, CSEVariable, DeferredLine, IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesEntry
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from .checks import CheckedKernel
from .nesting import known, loop, text_of
from .reductions import COMBINE, DEFINITION, SIMD_WIDTH, Reduction, Shape, group_thread, needed, scratch
from .steps import Steps
from .vectors import VECTOR_BYTES, Access, AccessKernel, Irregular, replaced, with_late_load

HEADER = "lib/generated_rows.h"
MAX_THREADS = 1024
ELEMENTS = 8  # that a thread loads at once, unless rows are short
REGISTERS = 64  # 32-bit registers per thread for a row, half as many in threadgroups of more than 512 threads


class RowKernel(CheckedKernel, AccessKernel):
    """A MetalKernel that reduces one row per threadgroup."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lines: list[Any] = []  # of the kernel, including the keys of `reductions`
        self.reductions: dict[str, Reduction] = {}
        (self.row,) = (tree for tree in self.range_trees if tree.is_reduction)
        self.vector_tree = self.row  # adjacent elements of a vector differ in this index

    # Inductor calls these methods to define the kernel's elements.

    def codegen_iteration_ranges_entry(self, entry: IterationRangesEntry) -> None:
        """Define an index variable, unless it depends on the element."""
        if not entry.root.is_reduction:
            super().codegen_iteration_ranges_entry(entry)

    def _reduction_nocache(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Any:
        """Add a reduction. Return its result."""
        is_float, result = src_dtype.is_floating_point, DTYPE_TO_COMPUTATION_DTYPE[dtype]
        if reduction_type == "any":
            return self._reduce("bool", "false", "CombineAny", value, dtype)
        if reduction_type == "welford_reduce":
            return self._moments(value)
        if reduction_type == "welford_combine":
            mean, m2, count = value
            return self._merged_moments(f"Moments{{float({count}), float({mean}), float({m2})}}")
        kind = "float" if is_float else "long" if src_dtype == torch.int64 else "int"
        if reduction_type in ("argmax", "argmin"):
            of, position = reduction_type[3:], f"long({self.row.name})"
            if is_float:  # both zeros are equal
                kind, value = "int", f"ordered_{of}({value} == 0.0f ? 0.0f : float({value}))"
            else:
                value = f"{'~' if of == 'min' else ''}{kind}({value})"
            limits = f"metal::numeric_limits<{kind}>::lowest(), metal::numeric_limits<long>::max()"
            found = self._reduce(f"Indexed<{kind}>", f"{{{limits}}}", "CombineArgMax",
                                 f"Indexed<{kind}>{{{value}, {position}}}", dtype)  # fmt: skip
            return self._define(f"{found}.index", dtype)
        if reduction_type in COMBINE:
            combine, of_floats, of_integers = COMBINE[reduction_type]
            init = of_floats if is_float else of_integers.format(f"metal::numeric_limits<{kind}>")
            return self._reduce(kind, init, combine, f"{kind}({value})", result)
        raise NotImplementedError(reduction_type)

    def _moments(self, value: Any) -> tuple[CSEVariable, ...]:
        """Reduce to the mean, the sum of squared deviations, and the count, in two passes."""
        count = self._define(f"float({self._numel()})", torch.float32)
        total = self._reduce("float", "0", "CombineSum", f"float({value})", torch.float32)
        mean = self._define(f"{total} / {count}", torch.float32)
        deviation = self._define(f"float({value}) - {mean}", torch.float32)
        return mean, self._reduce("float", "0", "CombineSum", f"{deviation} * {deviation}", torch.float32), count

    def _merged_moments(self, value: str) -> tuple[CSEVariable, ...]:
        """Reduce moments."""
        moments = self._reduce("Moments", "{0.0f, 0.0f, 0.0f}", "CombineMoments", value, torch.float32)
        return self._fields(moments)

    def _fields(self, moments: CSEVariable) -> tuple[CSEVariable, ...]:
        return tuple(self._define(f"{moments}.{field}", torch.float32) for field in ("mean", "m2", "count"))

    def _reduce(self, kind: str, init: str, combine: str, value: Any, dtype: torch.dtype) -> CSEVariable:
        var = self.cse.newvar(dtype=dtype)
        line = f"reduce {var}"
        self.reductions[line] = Reduction(str(var), kind, init, combine, str(value))
        self.stores.writeline(line)
        return var

    def _define(self, text: str, dtype: torch.dtype) -> CSEVariable:
        return self.cse.generate(self.stores, text, dtype=dtype)

    def codegen_body(self) -> None:
        """Collect the lines so far. codegen_kernel distributes them to passes."""
        for part in (self.loads, self.compute, self.stores):
            self.lines += part._lines
            part.clear()

    # Emission of the kernel

    def codegen_kernel(self, *args: Any) -> str:
        """Emit the kernel."""
        self.codegen_body()
        self._sort_accesses()
        self.shape = self._plan_row()
        if known(self.row.numel):
            self.max_threadgroup_size = self.shape.threads  # for the launch and the attribute of the kernel
        self.body = self._passes()
        text = super().codegen_kernel(*args)
        for access in self.vectors:
            if not access.is_store:
                text = re.sub(rf"constant (\w+\* {access.pointer}),", r"device const \1,", text)
        position = r"( *)(\w+ \w+ \[\[thread_position_in_grid\]\])"
        return re.sub(position, r"\1constant uint& alignment,\n\1\2", text, count=1)

    def _sort_accesses(self) -> None:
        """Find the accesses that move vectors, and those that are the same for all elements of a row."""
        self.vectors: list[Access] = []
        self.uniform: list[Access] = []
        self.factors: set[sympy.Expr] = set()  # the vector size must divide them
        self.loaded: set[Access] = set()  # late loads whose vectors an earlier pass has kept
        in_row = {symbol for symbol, entry in self.range_tree_nodes.items() if entry.root.is_reduction}
        for access in self._used_accesses():
            if not access.index.free_symbols & in_row:
                if not self._is_late(access):
                    self.uniform.append(access)
            elif self._moves_vectors(access):
                self.vectors.append(access)

    def _used_accesses(self) -> Iterator[Access]:
        """Yield the accesses except for stores to buffers that Inductor has removed, and loads of elements that the
        kernel updates. The thread that updates an element loads it."""
        real = V.graph.scheduler.mutation_real_name
        updated = {real[access.buffer] for access in self.accesses if access.is_store and access.buffer in real}
        updated |= {real[name] for name in self.args.output_buffers if name in real}
        for access in self.accesses:
            if not (access.buffer in self.removed_buffers if access.is_store else access.buffer in updated):
                yield access

    def _moves_vectors(self, access: Access) -> bool:
        """Return whether an access moves vectors. If so, add to the factors of the vector size."""
        steps = Steps(self, self._unit_symbols())
        try:
            found = self._is_contiguous(access, steps)
        except Irregular:
            return False
        is_simple = not self._is_late(access) and not access.index.has(FloorDiv, ModularIndexing)
        if not is_simple and any(known(f) and f % 2 for f in steps.factors):
            return False  # other accesses may move vectors
        self.factors |= steps.factors
        return found

    def _unit_symbols(self) -> list[sympy.Symbol]:
        """Return the index variables that differ between adjacent elements of a vector."""
        return [symbol for symbol in super()._unit_symbols() if self.range_tree_nodes[symbol].root is self.vector_tree]

    def _entries(self) -> list[IterationRangesEntry]:
        return [entry for entry in self.range_tree_nodes.values() if entry.root is self.vector_tree]

    def _numel(self) -> str:
        numel = self.row.numel
        return str(numel) if known(numel) else f"{self.index_dtype}({self.row.prefix}numel)"

    def _plan_row(self) -> Shape:
        """Choose the vector size and the number of threads."""
        numel = self.row.numel
        size, self.conditions = self._vector_size()
        if not known(numel):
            return Shape(size, f"min(uint({self._numel()}), {MAX_THREADS}u)", ELEMENTS // size, False, False)
        while size > 1 and numel // size < SIMD_WIDTH:
            size //= 2
        vectors = int(numel) // size
        threads = min(-(-vectors // max(1, ELEMENTS // size)), MAX_THREADS)
        threads = vectors if vectors <= SIMD_WIDTH else -(-threads // SIMD_WIDTH) * SIMD_WIDTH
        each = -(-vectors // threads)
        registers = each * sum(-(-size * a.dtype.itemsize // 4) for a in self.vectors if not a.is_store)
        if registers <= (REGISTERS if threads <= MAX_THREADS // 2 else REGISTERS // 2) and each <= REGISTERS:
            return Shape(size, threads, each, True, each * threads == vectors)
        return Shape(size, threads, max(1, ELEMENTS // size), False, False)

    def _vector_size(self) -> tuple[int, list[sympy.Expr]]:
        """Return the vector size, and the strides that must be multiples of it when the kernel runs."""
        numel = self.vector_tree.numel
        if not self.vectors or not known(numel):
            return 1, []
        size = VECTOR_BYTES // max(access.dtype.itemsize for access in self.vectors)
        factors = {numel, *self.factors}
        for entry in self._entries():
            factors |= {entry.divisor} if entry.divisor != 1 else {entry.length}
        while any(known(f) and f % size for f in factors):
            size //= 2
        return size, sorted((f for f in factors if f.as_coeff_Mul()[0] % size), key=str)

    def _passes(self) -> IndentedBuffer:
        """Return the kernel's body: the passes over the row."""
        code, shape, kind = IndentedBuffer(), self.shape, self.index_dtype
        conditions = [f"alignment % {VECTOR_BYTES} == 0",
                      *(f"{self.index_to_str(f)} % {shape.vector} == 0" for f in self.conditions)]  # fmt: skip
        code.writelines([f"const bool aligned = {' && '.join(conditions)};",
                         f"const {kind} row_size = {self._numel()};", *self._threads()])  # fmt: skip
        code.writelines(f"threadgroup {kind} {scratch(kind)}[{self._scratch_size()}];"
                        for kind in dict.fromkeys(r.shared_kind for r in self.reductions.values()))  # fmt: skip
        code.writelines(self.check_definitions())
        lines = self._without_uniform_loads(code)
        for access in self.vectors:
            if not access.is_store:
                code.writeline(f"PackedVec<{self.dtype_to_str(access.dtype)}, {shape.vector}> "
                               f"{self._vector(access)}[{shape.batch}];")  # fmt: skip
        if shape.is_loaded_once:
            code.writeline(f"const {kind} base = 0;")
            self._load(code)
        body: list[Any] = []
        pending: list[Reduction] = []
        results: set[str] = set()  # variables that are known after the next pass
        for line in lines:
            reduction = self.reductions.get(line) if isinstance(line, str) else None
            text = reduction.value if reduction else text_of(line)
            if set(re.findall(r"\w+", text)) & results and not isinstance(line, DeferredLine):
                if not reduction and (defined := DEFINITION.match(text)):
                    results.add(defined[1])
                else:
                    self._pass(code, [x for x in body if not isinstance(x, DeferredLine)], pending)
                    pending, results = [], set()
            if reduction:
                pending.append(reduction)
                results.add(reduction.result)
            else:
                body.append(line)
        if pending:
            self._pass(code, [x for x in body if not isinstance(x, DeferredLine)], pending)
        self._store_results(code, body)
        code.writelines(self.check_reports())
        return code

    def _threads(self) -> Iterator[str]:
        """Yield the definitions of the thread's position in its threadgroup."""
        yield f"const uint row_thread = {self.row.name}, row_threads = {self.shape.threads};"
        yield from group_thread("row_group", "row_thread", "row_threads")

    def _scratch_size(self) -> int | str:
        """Return the number of values in threadgroup memory that a reduction needs."""
        return "kScratch"

    def _without_uniform_loads(self, code: IndentedBuffer) -> list[Any]:
        """Emit the loads that are the same for all elements. Return the kernel's lines with their results instead."""
        lines = self._kept_lines()
        loads = [access for access in self.uniform if not access.is_store]
        for i, access in enumerate(loads):
            element = f"{access.pointer}[{self.index_to_str(access.index)}]"
            code.writeline(f"const auto row_value{i} = {element};")
            lines = [replaced(line, element, f"row_value{i}") for line in lines]
        return lines

    def _kept_lines(self) -> list[Any]:
        """Return the kernel's lines without stores to buffers that Inductor has removed."""
        return [line for line in self.lines if not isinstance(line, DeferredLine) or line() is not None]

    def _vector(self, access: Access) -> str:
        return f"vector{self.vectors.index(access)}"

    def _first(self, text: str) -> str:
        """Return an expression of index variables for the first element of a vector."""
        for entry in self._entries():
            text = re.sub(rf"\b{entry.name}\b", f"first_{entry.name}", text)
        return re.sub(rf"\b{self.vector_tree.name}\b", "first", text)

    @contextmanager
    def _strips(self, code: IndentedBuffer) -> Iterator[None]:
        """Emit a loop over the thread's vectors, with the index variables of their first elements."""
        shape, kind = self.shape, self.index_dtype
        with ExitStack() as stack:
            stack.enter_context(loop(code, f"MPSX_UNROLL for (uint strip = 0; strip < {shape.batch}; ++strip) {{"))
            code.writeline(f"const {kind} first = base + {kind}(strip * row_threads + row_thread) * {shape.vector};")
            if not shape.is_exact:
                stack.enter_context(loop(code, "if (first < row_size) {"))
            for entry in self._entries():
                value = self._first(self.sexpr(self.rename_indexing(entry.expr)))
                code.writeline(f"const {kind} first_{entry.name} = {value};")
            yield

    def _load(self, code: IndentedBuffer) -> None:
        """Emit the loads of all vectors."""
        with self._strips(code):
            for access in self.vectors:
                if not access.is_store and not self._is_late(access):
                    address = f"{access.pointer} + ({self._first(self.index_to_str(access.index))})"
                    code.writeline(f"{self._vector(access)}[strip] = "
                                   f"load_elements<{self.shape.vector}>({address}, aligned);")  # fmt: skip

    def _lane(self, code: IndentedBuffer, lines: Sequence[Any], values: Sequence[str] = ()) -> None:
        """Emit the code of one element, for its stores and for some values."""
        kind = self.index_dtype
        code.writeline(f"const {kind} {self.vector_tree.name} = first + {kind}(lane);")
        for entry in self._entries():
            lane = f" + {kind}(lane)" if entry.divisor == 1 else ""
            code.writeline(f"const {kind} {entry.name} = first_{entry.name}{lane};")
        lines = needed(lines, values)
        for access in self.vectors:
            index = self.index_to_str(access.index)
            element = f"{access.pointer}[{index}]"
            vector = self._vector(access) + ("" if access.is_store else "[strip]")
            lane = f"{vector}.v[lane]" if access.is_store else f"{vector}.get(lane)"
            used = any(element in text_of(line) for line in lines)
            if used and self._is_late(access) and access not in self.loaded:
                load = f"{vector} = load_elements<{self.shape.vector}>({access.pointer} + ({index}), aligned);"
                lines = with_late_load(lines, element, load)
                self.loaded |= {access} if self.shape.is_loaded_once else set()
            lines = [replaced(line, element, lane) for line in lines]
        code.writelines(lines)

    def _pass(self, code: IndentedBuffer, lines: Sequence[Any], reductions: Sequence[Reduction]) -> None:
        """Emit a pass over the row that either reduces or stores results."""
        shape, kind = self.shape, self.index_dtype
        stores = [access for access in self.vectors if access.is_store and not reductions]
        for r in reductions:
            self._define_partial(code, r)
        with ExitStack() as stack:
            if not shape.is_loaded_once:
                step = f"{kind}(row_threads) * {self._row_elements() * shape.batch}"
                stack.enter_context(loop(code, f"for ({kind} base = 0; base < row_size; base += {step}) {{"))
                self._load(code)
            with self._strips(code):
                code.writelines(f"Vec<{self.dtype_to_str(a.dtype)}, {shape.vector}> {self._vector(a)};" for a in stores)
                with loop(code, f"MPSX_UNROLL for (uint lane = 0; lane < {shape.vector}; ++lane) {{"):
                    self._lane(code, lines, [r.value for r in reductions])
                    code.writelines(f"{self._partial(r)} = {r.updated(self._partial(r))};" for r in reductions)
                for access in stores:
                    address = f"{access.pointer} + ({self._first(self.index_to_str(access.index))})"
                    code.writeline(f"store_elements({address}, {self._vector(access)}, aligned);")
            if not shape.is_loaded_once:
                self._end_batch(code, reductions)
        for r in reductions:
            self._combine_threads(code, r)

    def _end_batch(self, code: IndentedBuffer, reductions: Sequence[Reduction]) -> None:
        """Emit what follows the reduction of a batch of a thread's vectors."""

    def _row_elements(self) -> int:
        """Return the number of elements of a row in a vector."""
        return self.shape.vector

    def _partial(self, r: Reduction) -> str:
        """Return the variable with a thread's result for the elements so far."""
        return f"partial_{r.result}"

    def _define_partial(self, code: IndentedBuffer, r: Reduction) -> None:
        code.writeline(f"{r.kind} partial_{r.result} = {r.init};")

    def _combine_threads(self, code: IndentedBuffer, r: Reduction) -> None:
        """Emit the reduction of the threads' results."""
        code.writeline(f"const {r.kind} {r.result} = "
                       f"tg_reduce<{r.combine}>(partial_{r.result}, {scratch(r.shared_kind)}, row_group);")  # fmt: skip

    def _store_results(self, code: IndentedBuffer, lines: Sequence[Any]) -> None:
        """Emit the stores: those of elements in a pass, and those of the row's results by one thread."""
        once = f"if ({self.row.name} == 0) "
        of_row = [f"{a.pointer}[{self.index_to_str(a.index)}] = " for a in self.uniform if a.is_store]
        lines = [line._new_line(once + line.line) if any(store in text_of(line) for store in of_row) else line
                 for line in lines]  # fmt: skip
        stores = [line for line in lines if isinstance(line, DeferredLine)]
        if any(not line.line.startswith(once) for line in stores):
            self._pass(code, lines, [])
        elif stores:
            self._store_once(code, lines)

    def _store_once(self, code: IndentedBuffer, lines: Sequence[Any]) -> None:
        """Emit the stores of the row's results."""
        with loop(code, "if (row_thread == 0) {"):
            code.writeline(f"const uint strip = 0, lane = 0; const {self.index_dtype} base = 0, first = 0;")
            code.writelines(f"const {self.index_dtype} first_{e.name} = 0;" for e in self._entries())
            self._lane(code, lines)
