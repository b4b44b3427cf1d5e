"""Inductor kernels in which each thread processes a vector of adjacent elements, for drivers with SIMD groups.

This applies to kernels without a reduction in which every access is either contiguous or the same for all elements of
a vector. The vector function is a template: the kernel calls it with a vector size of 1 for the tail, and for all
elements if an address or a stride is not a multiple of the vector size. It loads vectors before it computes elements,
except for those under a mask or with an index that depends on values: the first element loads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, DeferredLine, IndentedBuffer
from torch._inductor.codegen.mps import MetalKernel
from torch._inductor.virtualized import V

from .nesting import known, text_of
from .steps import Steps, Variable, Varying, is_value

VECTOR_BYTES = 16
PARAMETERS = re.compile(r"kernel void generated_kernel\(\n(.*?),?\n[^\n]*thread_position_in_grid.*?\) \{\n", re.S)


@dataclass(frozen=True)
class Access:
    """A load or store of one element."""

    buffer: str  # name in the graph
    pointer: str  # name in the kernel
    index: sympy.Expr
    dtype: torch.dtype
    is_store: bool


class Context(NamedTuple):
    """Where an access happens."""

    masks: tuple[Any, ...]  # it happens only where all of them are true
    variables: dict[str, Variable | None]  # variables in the index


class Irregular(Exception):
    """Raised if a kernel cannot move vectors."""


class AccessKernel(MetalKernel):
    """A MetalKernel that records its loads and stores, and finds those that are contiguous."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.accesses: dict[Access, list[Context]] = {}
        self.variables: dict[str, Variable] = {}  # the latest variable of each name

    def create_cse_var(self, *args: Any, **kwargs: Any) -> Variable:
        """Create a variable. Inductor calls this method."""
        variable = Variable(*args, **kwargs)
        self.variables[variable.name] = variable
        return variable

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        """Emit a load, and record it."""
        access, context = self._record(name, self.args.input(name), index, False)
        variable = super().load(name, index)
        variable.operation = ("load", (access.index, context.variables))
        return variable

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        """Emit a store, and record it."""
        self._record(name, self.args.output(name), index, True)
        super().store(name, index, value, mode)

    def _record(self, name: str, pointer: str, index: sympy.Expr, is_store: bool) -> tuple[Access, Context]:
        index = self.prepare_indexing(index)
        access = Access(name, pointer, index, V.graph.get_dtype(name), is_store)
        context = Context(self.masks, {s.name: self.variables.get(s.name) for s in index.free_symbols if is_value(s)})
        self.accesses.setdefault(access, []).append(context)
        return access, context

    def _unit_symbols(self) -> list[sympy.Symbol]:
        """Return the index variables that differ between adjacent elements."""
        return [symbol for symbol, entry in self.range_tree_nodes.items() if entry.divisor == 1]

    def _is_contiguous(self, access: Access, steps: Steps) -> bool:
        """Return whether an access is contiguous, or False if it is the same for all elements of a vector."""
        contexts = self.accesses[access]
        try:
            found = {steps.step(access.index, context.variables) for context in contexts}
        except Varying:
            raise Irregular from None
        if found == {0} and not access.is_store:
            return False
        if found != {1} or (access.is_store and contexts[0].variables):
            raise Irregular
        if self._is_late(access) and not all(steps.is_uniform(mask) for c in contexts for mask in c.masks):
            raise Irregular
        return True

    def _is_late(self, access: Access) -> bool:
        """Return whether the first element must load the vector, as its address is not known or not valid before."""
        return all(context.masks or context.variables for context in self.accesses[access])


class VectorKernel(AccessKernel):
    """A MetalKernel that moves vectors, if all accesses permit."""

    vector_size = 1

    def codegen_kernel(self, *args: Any) -> str:
        """Emit the kernel, with a vector function if all accesses permit."""
        self.codegen_body()
        try:
            vectors, factors = self._plan()
        except Irregular:
            return super().codegen_kernel(*args)
        (tree,) = self.active_range_trees()
        conditions = "".join(f" && {self.index_to_str(f)} % {self.vector_size} == 0" for f in factors)
        function, self.body = self._vector_body(vectors), IndentedBuffer()
        self.indexing_code.clear()
        text = super().codegen_kernel(*args)
        found = PARAMETERS.search(text)
        parameters = found[1]
        for access in vectors:
            if not access.is_store:
                parameters = re.sub(rf"constant (\w+\* {access.pointer})\b", r"device const \1", parameters)
        arguments = ", ".join(re.findall(r"(\w+)(?:,|$)", parameters, re.M))
        size, kind = self.vector_size, self.index_dtype
        numel = tree.numel if known(tree.numel) else f"{kind}({tree.prefix}numel)"
        return f"""{text[: found.start()]}template <uint N>
    inline void generated_kernel_vector(
{parameters},
        {kind} {tree.name}
    ) {{
{function.getvalue()}
    }}
    kernel void generated_kernel(
{parameters},
        constant uint& alignment,
        uint gid [[thread_position_in_grid]]
    ) {{
        const {kind} numel = {numel}, index = {kind}(gid), threads = (numel + {size - 1}) / {size};
        const bool vectorized = alignment % {VECTOR_BYTES} == 0{conditions};
        const {kind} vectors = vectorized ? numel / {size} : 0;
        if (index < vectors) {{
            generated_kernel_vector<{size}>({arguments}, index * {size});
            return;
        }}
        for ({kind} i = vectorized ? vectors * {size} : index; i < numel; i += vectorized ? 1 : threads)
            generated_kernel_vector<1>({arguments}, i);
{text[found.end() :].lstrip()}"""

    def _vector_body(self, vectors: list[Access]) -> IndentedBuffer:
        """Return the body of the vector function: load vectors, loop over their elements, store vectors."""
        (tree,) = self.active_range_trees()
        code, lines = IndentedBuffer(2), self.body._lines
        code.splice(self.indexing_code)
        stores = IndentedBuffer()
        for i, access in enumerate(vectors):
            index, kind = self.index_to_str(access.index), self.dtype_to_str(access.dtype)
            element, vector = f"{access.pointer}[{index}]", f"vector{i}"
            if self._is_late(access):
                code.writeline(f"Vec<{kind}, N> {vector};")
                lines = with_late_load(lines, element, f"{vector} = load_vec<N>({access.pointer} + ({index}));")
            lines = [replaced(line, element, f"{vector}.v[lane]") for line in lines]
            if self._is_late(access):
                continue
            if access.is_store:
                code.writeline(DeferredLine(access.buffer, f"Vec<{kind}, N> {vector};"))
                stores.writeline(DeferredLine(access.buffer, f"store_vec({access.pointer} + ({index}), {vector});"))
            else:
                code.writeline(f"const Vec<{kind}, N> {vector} = load_vec<N>({access.pointer} + ({index}));")
        used = IndentedBuffer()
        used.writelines(lines)
        names = [n for n in (tree.name, *map(str, self._unit_symbols())) if re.search(rf"\b{n}\b", used.getvalue())]
        code.writelines(f"const {self.index_dtype} first_{name} = {name};" for name in names)
        code.writeline("MPSX_UNROLL for (uint lane = 0; lane < N; ++lane) {")
        with code.indent():
            code.writelines(f"const {self.index_dtype} {name} = first_{name} + lane;" for name in names)
            code.writelines(lines)
        code.writeline("}")
        code.splice(stores)
        return code

    def _plan(self) -> tuple[list[Access], list[sympy.Expr]]:
        """Choose the vector size. Return the contiguous accesses, and the sizes and strides that must be multiples of
        the vector size when the kernel runs."""
        trees = self.active_range_trees()
        if len(trees) != 1 or "atomic" in self.headers:
            raise Irregular
        steps = Steps(self, self._unit_symbols())
        used = [a for a in self.accesses if not a.is_store or a.buffer not in self.removed_buffers]
        vectors = [access for access in used if self._is_contiguous(access, steps)]
        if not any(access.is_store for access in vectors):
            raise Irregular
        size = VECTOR_BYTES // max(access.dtype.itemsize for access in vectors)
        factors = {*self._periods(), *steps.factors}
        while any(known(f) and f % size for f in factors):
            size //= 2
        if size == 1:
            raise Irregular
        self.vector_size = size
        return vectors, sorted((f for f in factors if f.as_coeff_Mul()[0] % size), key=str)

    def _periods(self) -> Iterator[sympy.Expr]:
        """Yield the numbers of elements after which an index variable changes or starts again."""
        for entry in self.range_tree_nodes.values():
            if entry.divisor != 1:
                yield entry.divisor
            elif entry.length != entry.root.numel:
                yield entry.length


def with_late_load(lines: Sequence[Any], element: str, load: str) -> list[Any]:
    """Return the lines with a load of a vector before each use of its elements."""
    found = []
    for line in lines:
        text = text_of(line)
        if element in text:
            found.append(f"{text[: len(text) - len(text.lstrip())]}if (lane == 0) {load}")
        found.append(line)
    return found


def replaced(line: Any, old: str, new: str) -> Any:
    """Replace text in a line of an IndentedBuffer."""
    if isinstance(line, DeferredLine):
        return line._new_line(line.line.replace(old, new))
    return line.replace(old, new) if isinstance(line, str) else line
