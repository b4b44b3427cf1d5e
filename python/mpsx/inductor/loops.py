"""Inductor reductions for drivers that run one thread per threadgroup: loops without threadgroup memory or barriers.

A thread reduces a row in strips of LANES elements. If loads are contiguous across columns rather than along rows, every
LANES-th thread reduces LANES columns together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import DTYPE_TO_COMPUTATION_DTYPE, CSEVariable, DeferredLine, IndentedBuffer
from torch._inductor.codegen.mps import DTYPE_TO_METAL
from torch._inductor.codegen.simd import IterationRangesEntry, IterationRangesRoot
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .lanes import LANES, LaneKernel
from .nesting import digits_of, known, loop

MAX_KEPT = 4096  # elements of a row that a thread keeps for its second pass
# After so many terms, a partial sum is added to another one and starts again at zero. Otherwise, the rounding errors of
# a long sum of equal signs grow with its length.
TERMS = 128


@dataclass(frozen=True)
class Accumulator:
    """The per-lane arrays of a reduction, and the statements that update them."""

    arrays: dict[str, tuple[str, str]]  # array name -> (type, initial value)
    update: str  # accumulates the current element
    combine: str  # merges lane `other` into lane `lane`
    finalize: str = ""  # runs for each lane at the end
    first_pass: bool = False  # runs in an earlier loop, because other accumulators need its result
    second_pass: str = ""  # the variable that it accumulates, if it needs the result of a first pass
    sums: bool = False  # whether its array is a sum of float32 numbers


@dataclass
class Stage:
    """The code between two calls to codegen_body. It runs either inside a loop over the reduced elements or after that
    loop."""

    looped: bool
    entries: list[IterationRangesEntry]
    accumulators: list[Accumulator]
    body: IndentedBuffer
    epilogue: IndentedBuffer


def _identity(of: str, dtype: torch.dtype) -> str:
    """Return the initial value for a "max" or "min" reduction. Before torch 2.13, c10/metal does not define it."""
    kind = DTYPE_TO_METAL[dtype]
    if dtype.is_floating_point:
        return f"{kind}({'-' if of == 'max' else ''}INFINITY)"
    return f"metal::numeric_limits<{kind}>::{'lowest' if of == 'max' else 'max'}()"


class LoopKernel(LaneKernel):
    """A MetalKernel that implements reductions as loops."""

    max_threadgroup_size = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stages: list[Stage] = []
        self.entries: list[IterationRangesEntry] = []
        self.accumulators: list[Accumulator] = []
        self.contiguous = {"rows": 0, "columns": 0}  # number of contiguous loads in each direction

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        """Emit a load, and count whether it is contiguous along rows or columns."""
        if self.inside_reduction:
            offset = self.prepare_indexing(index)
            nodes = [self.range_tree_nodes[s] for s in offset.free_symbols if s in self.range_tree_nodes]
            unit = [n.is_reduction for n in nodes if n.divisor == 1 and offset.coeff(n.symbol()) == 1]
            if any(n.is_reduction for n in nodes) and unit:
                self.contiguous["rows" if any(unit) else "columns"] += 1
        return super().load(name, index)

    def codegen_iteration_ranges_entry(self, entry: IterationRangesEntry) -> None:
        """Collect the index variables. Loops over reduced dimensions define the variables of these dimensions."""
        if not entry.is_reduction:
            self.column_entries.append(entry)
            super().codegen_iteration_ranges_entry(entry)
        elif entry not in self.entries:
            self.entries.append(entry)

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        """Store the result of a reduction after its loop."""
        var = self.args.output(name)
        offset = self.index_to_str(self.prepare_indexing(index))
        kind = self.dtype_to_str(V.graph.get_dtype(name))
        self.stores.writeline(DeferredLine(name, f"{var}[{offset}] = static_cast<{kind}>({value});"))

    def _reduction_nocache(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Any:
        self.headers.add("reduction_utils")
        acc = f"tmp_acc_{next(self.acc_var_ids)}"
        a, b = f"{acc}[lane]", f"{acc}[other]"
        kind, result = DTYPE_TO_METAL[src_dtype], DTYPE_TO_COMPUTATION_DTYPE[dtype]
        if reduction_type == "any":
            self._accumulate({acc: ("bool", "false")}, f"{a} = {a} || {value};", f"{a} = {a} || {b};")
        elif reduction_type in ("sum", "prod"):
            first, op = ("0", "+") if reduction_type == "sum" else ("1", "*")
            kind = DTYPE_TO_METAL[DTYPE_TO_COMPUTATION_DTYPE[src_dtype]]
            self._accumulate({acc: (kind, first)}, f"{a} = {a} {op} {value};", f"{a} = {a} {op} {b};",
                             sums=(kind, op) == ("float", "+"))  # fmt: skip
        elif reduction_type in ("max", "min"):
            call = f"{a} = c10::metal::{reduction_type}"
            self._accumulate({acc: (kind, _identity(reduction_type, src_dtype))},
                         f"{call}({a}, static_cast<{kind}>({value}));", f"{call}({a}, {b});")  # fmt: skip
        elif reduction_type in ("argmax", "argmin"):
            return self._arg_reduction(acc, reduction_type[3:], src_dtype, value, dtype)
        elif reduction_type == "welford_reduce":
            return self._two_pass_variance(acc, kind, value)
        elif reduction_type == "welford_combine":
            call = f"{a} = c10::metal::welford_combine"
            self._accumulate({acc: ("float3", "float3(0.0)")}, f"{call}({a}, float3({', '.join(map(str, value))}));",
                         f"{call}({a}, {b});")  # fmt: skip
            return tuple(self._result(f"{a}.{part}", torch.float32) for part in "xyz")
        else:
            raise NotImplementedError(reduction_type)
        return self._result(a, result)

    def _accumulate(self, arrays: dict[str, tuple[str, str]], update: str, combine: str, **options: Any) -> None:
        self.accumulators.append(Accumulator(arrays, update, combine, **options))

    def _result(self, text: str, dtype: torch.dtype) -> CSEVariable:
        return self.cse.generate(self.stores, text, dtype=dtype)

    def _arg_reduction(self, acc: str, of: str, src_dtype: torch.dtype, value: Any, dtype: torch.dtype) -> CSEVariable:
        """Emit argmax or argmin. Ties go to the smallest index."""
        at, (root,) = f"{acc}_at", [t for t in self.range_trees if t.is_reduction]
        kind, index = DTYPE_TO_METAL[src_dtype], DTYPE_TO_METAL[dtype]
        position, cast = f"static_cast<{index}>({root.name})", f"static_cast<{kind}>({value})"

        def beats(one: str, other: str) -> str:  # NaN beats every number
            plain = f"{one} {'>' if of == 'max' else '<'} {other}"
            if not src_dtype.is_floating_point:
                return plain
            return f"(!metal::isnan(float({other})) && (metal::isnan(float({one})) || {plain}))"

        here, there = f"{acc}[lane]", f"{acc}[other]"
        self._accumulate(
            {acc: (kind, _identity(of, src_dtype)), at: (index, "0")},
            f"if ({beats(cast, here)}) {{ {here} = {value}; {at}[lane] = {position}; }}",
            f"if ({beats(there, here)} || (!({beats(here, there)}) && "
            f"{at}[other] < {at}[lane])) {{ {here} = {there}; {at}[lane] = {at}[other]; }}",
        )
        return self._result(f"{at}[lane]", dtype)

    def _two_pass_variance(self, acc: str, kind: str, value: Any) -> tuple[CSEVariable, ...]:
        """Emit mean, sum of squared deviations, and count in two loops. Welford's algorithm would divide once per
        element."""
        mean, count = f"{acc}_mean", " * ".join(f"float({self._numel(t)})" for t in self.range_trees if t.is_reduction)
        self._accumulate({mean: ("float", "0")}, f"{mean}[lane] += {value};", f"{mean}[lane] += {mean}[other];",
                     finalize=f"{mean}[lane] /= {count};", first_pass=True, sums=True)  # fmt: skip
        self._accumulate({acc: ("float", "0")}, f"{acc}[lane] += ({value} - {mean}[lane]) * ({value} - {mean}[lane]);",
                     f"{acc}[lane] += {acc}[other];", second_pass=str(value), sums=True)  # fmt: skip
        return tuple(self._result(text, torch.float32) for text in (f"{mean}[lane]", f"{acc}[lane]", count))

    def codegen_body(self) -> None:
        """End a stage. codegen_kernel chooses the loops once all stages are known."""
        if not self.features.is_reduction():
            super().codegen_body()
            return
        if not (self.loads or self.compute or self.stores or self.accumulators):
            return
        looped = bool(self.entries or self.accumulators)
        stage = Stage(looped, self.entries, self.accumulators, IndentedBuffer(), IndentedBuffer())
        stage.body.splice(self.loads)
        stage.body.splice(self.compute)
        stage.epilogue.splice(self.stores)
        self.stages.append(stage)
        if looped:  # only a loop's results are visible after it
            results = (item if isinstance(item, tuple) else (item,) for item in self.cse.reduction_cache.values())
            self.cse.invalidate(OrderedSet(v for item in results for v in item))
            for entry in self.entries:
                entry.cache_clear()
        self.entries, self.accumulators = [], []
        for buffer in (self.loads, self.compute, self.stores):
            buffer.clear()

    def codegen_kernel(self, *args: Any) -> str:
        """Emit the kernel, using the stages as its body."""
        self.codegen_body()
        if self.stages:
            columns = self._columns()
            self.body.splice(self._reduce_rows() if columns is None else self._reduce_columns(columns))
            self.stages = []
        elif not self.features.is_reduction():
            self._nest_loops()
        body, self.body = self.body, IndentedBuffer()
        self.body.writelines(self.check_definitions())
        self.body.splice(body)
        self.body.writelines(self.check_reports())
        attribute = "[[max_total_threads_per_threadgroup(1)]] " if self.threads else ""
        return super().codegen_kernel(*args).replace("kernel void", f"{attribute}kernel void")

    def _columns(self) -> IterationRangesRoot | None:
        """Return the range over columns if one thread should reduce LANES of them, otherwise None."""
        trees = [t for t in self.range_trees if not t.is_reduction]
        first, *others = self.stages
        fits = len(trees) == 1 and first.looped and not any(stage.looped for stage in others)
        return trees[0] if fits and self.contiguous["columns"] > self.contiguous["rows"] else None

    def _reduce_rows(self) -> IndentedBuffer:
        """Emit code that reduces one row per thread."""
        code = IndentedBuffer()
        code.writeline("constexpr int lane = 0;")  # values computed once per row use index 0
        for stage in self.stages:
            if stage.looped:
                self._reduce(code, stage, None)
            else:
                code.splice(stage.body)
            code.splice(stage.epilogue)
        return code

    def _reduce_columns(self, columns: IterationRangesRoot) -> IndentedBuffer:
        """Emit code in which every LANES-th thread reduces LANES columns. Where an index variable wraps around within
        LANES columns, a thread reduces fewer."""
        code = IndentedBuffer()
        first, *others = self.stages
        ends = {p for e in self.column_entries for p in (e.divisor, e.divisor * e.length)} - {1, columns.numel}
        block = next((b for b in (LANES, LANES // 2, LANES // 4) if all(known(p) and p % b == 0 for p in ends)), None)
        self.contiguous_columns = block is not None
        block = block or LANES
        code.writelines([f"if ({columns.name} % {block} != 0) return;",
                         f"const {self.index_dtype} first = {columns.name};",
                         self._lane_count(self._numel(columns), "first", block)])  # fmt: skip
        if self.contiguous_columns:
            code.writelines(f"const {self.index_dtype} first_{e.name} = {e.name};" for e in self._unit_columns())
        self._reduce(code, first, columns)
        with self._lanes(code, columns) as lanes:
            lanes.splice(first.epilogue)
            for stage in others:
                lanes.splice(stage.body)
                lanes.splice(stage.epilogue)
        return code

    def _reduce(self, code: IndentedBuffer, stage: Stage, columns: IterationRangesRoot | None) -> None:
        """Emit the loops of a stage, then combine its accumulators."""
        accumulators, lines = stage.accumulators, stage.body._lines
        first, second = [a for a in accumulators if a.first_pass], [a for a in accumulators if a.second_pass]
        if not first:
            self._pass(code, stage, columns, accumulators, lines)
        elif columns is None and self._keeps_rows():
            once = [a for a in accumulators if a not in second]
            values = dict.fromkeys(a.second_pass for a in second)
            code.writelines(f"float row_of_{value}[{self._row().numel}];" for value in values)
            kept = [f"row_of_{value}[{self._row().name}] = {value};" for value in values]
            self._pass(code, stage, columns, once, [*lines, *kept])
            loads = [f"const float {value} = row_of_{value}[{self._row().name}];" for value in values]
            self._pass(code, stage, columns, second, loads)
        else:
            # Omit stores from the first pass, because the second pass would read the stored values.
            self._pass(code, stage, columns, first, [line for line in lines if not isinstance(line, DeferredLine)])
            self._pass(code, stage, columns, [a for a in accumulators if a not in first], lines)

    def _pass(self, code: IndentedBuffer, stage: Stage, columns: IterationRangesRoot | None,
              accumulators: list[Accumulator], lines: list[Any]) -> None:  # fmt: skip
        """Emit a loop that runs some lines and accumulates, then combine the lanes."""
        for name, (kind, init) in ((n, t) for a in accumulators for n, t in a.arrays.items()):
            code.writeline(f"{kind} {name}[{LANES}];")
            code.writeline(f"for (int lane = 0; lane < {LANES}; ++lane) {name}[lane] = {init};")
        sums = [n for a in accumulators if a.sums for n in a.arrays] if self._has_long_sums(columns is None) else []
        restart = ""
        if sums:
            count, updates = f"{sums[0]}_terms", (f"{n}_total[lane] += {n}[lane]; {n}[lane] = 0;" for n in sums)
            code.writelines([f"int {count} = 0;", *(f"float {name}_total[{LANES}] = {{}};" for name in sums)])
            restart = (f"if (++{count} % {TERMS} == 0) for (int lane = 0; lane < {LANES}; ++lane) "
                       f"{{ {' '.join(updates)} }}")  # fmt: skip
        with self._loops(code, stage.entries, columns, restart) as body:
            body.writelines([*lines, *(a.update for a in accumulators)])
        for name in sums:
            code.writeline(f"for (int lane = 0; lane < {LANES}; ++lane) {name}[lane] += {name}_total[lane];")
        for a in accumulators:
            self._finalize(code, a, columns is None)

    def _row(self) -> IterationRangesRoot:
        """Return the last range over reduced elements."""
        return [tree for tree in self.range_trees if tree.is_reduction][-1]

    def _has_long_sums(self, along_rows: bool) -> bool:
        """Return whether a lane may add more than TERMS numbers."""
        sizes = [tree.numel for tree in self.range_trees if tree.is_reduction]
        count = math.prod(map(int, sizes)) if known(*sizes) else math.inf
        return count > (TERMS * LANES if along_rows else TERMS)

    def _keeps_rows(self) -> bool:
        """Return whether a row is short enough to keep its values between two passes."""
        rows = [tree for tree in self.range_trees if tree.is_reduction]
        return len(rows) == 1 and known(rows[0].numel) and rows[0].numel <= MAX_KEPT

    @staticmethod
    def _finalize(code: IndentedBuffer, a: Accumulator, combine: bool) -> None:
        """Combine and finalize the lanes of a row. Afterwards, every lane holds the result."""
        if combine:
            code.writelines([f"for (int width = {LANES // 2}; width > 0; width /= 2)",
                             "  for (int lane = 0; lane < width; ++lane) {",
                             f"    const int other = lane + width; {a.combine}",
                             "  }"])  # fmt: skip
        if combine and a.finalize:
            code.writelines(f"for (int lane = 1; lane < {LANES}; ++lane) {n}[lane] = {n}[0];" for n in a.arrays)
        if a.finalize:
            code.writeline(f"for (int lane = 0; lane < {LANES}; ++lane) {a.finalize}")

    @contextmanager
    def _loops(self, code: IndentedBuffer, entries: list[IterationRangesEntry],
               columns: IterationRangesRoot | None, restart: str) -> Iterator[IndentedBuffer]:  # fmt: skip
        """Emit loops over all elements of a row, with the lines written to the result. The innermost loop is the one
        over lanes. `restart` follows it."""
        trees = [t for t in self.range_trees if t.is_reduction]
        with ExitStack() as stack:
            for tree in trees:
                digits = digits_of(tree, [e for e in entries if e.root is tree])
                names = [f"{tree.prefix}digit_{i}" for i in range(len(digits or [0]))]
                counts = [str(count) for _, count in digits] if digits else [self._numel(tree)]
                strip = columns is None and tree is trees[-1]
                for name, count in reversed([*zip(names, counts, strict=True)][strip:]):
                    stack.enter_context(
                        loop(code, f"for ({self.index_dtype} {name} = 0; {name} < {count}; ++{name}) {{")
                    )
                if strip:
                    head = f"for ({self.index_dtype} base = 0; base < {counts[0]}; base += {LANES}) {{"
                    stack.enter_context(loop(code, head))
                    code.writeline(self._lane_count(counts[0], "base"))
                if tree is trees[-1] and restart:
                    stack.callback(code.writeline, restart)
                body = stack.enter_context(self._lanes(code, columns)) if tree is trees[-1] else code
                if strip:
                    body.writeline(f"const {self.index_dtype} {names[0]} = base + lane;")
                body.writelines(self._index_variables(tree, entries, digits, names))
            yield body
