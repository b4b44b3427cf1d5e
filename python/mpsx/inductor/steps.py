"""How values of a generated kernel change between the adjacent elements of a vector.

A vector starts at an index that is a multiple of its size. An index such as `x % 64` therefore counts up within a
vector, and a mask such as `x < 768` is the same for all elements, if the vector size divides 64 and 768.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable
from torch.utils._sympy.functions import FloorDiv, Identity, ModularIndexing
from torch.utils._sympy.symbol import SymT, symbol_is_type

INDICES = ("index_expr", "value_expr")
ORDERINGS = ("lt", "le", "gt", "ge")


class Varying(Exception):
    """Raised if an index is not a linear function of the element's position in the vector."""


def is_value(symbol: sympy.Symbol) -> bool:
    """Return whether a symbol in an index stands for a value that the kernel has loaded or computed."""
    return symbol_is_type(symbol, (SymT.TMP, SymT.INDIRECT))


class Variable(CSEVariable):
    """A variable of a kernel, and the operation that defines it."""

    operation: tuple[str, tuple[Any, ...]] = ("", ())

    def update_on_args(self, name: str, args: Any, kwargs: Any) -> None:
        """Record the operation. Inductor calls this method."""
        self.operation = (name, args)


class Steps:
    """Finds the steps of indices. `factors` collects the numbers that must be multiples of the vector size."""

    def __init__(self, kernel: Any, units: list[sympy.Symbol]) -> None:
        self.kernel = kernel
        self.units = units  # index variables that differ between adjacent elements
        self.factors: set[sympy.Expr] = set()
        self.uniform: dict[int, bool] = {}  # by the id of a variable

    def step(self, index: sympy.Expr, variables: dict[str, Variable | None]) -> sympy.Expr:
        """Return the difference between the indices of adjacent elements. If it is not 0, the index of a vector's first
        element must be a multiple of the vector size."""
        step, factors = self._linear(index, variables)
        if step != 0:
            self.factors |= factors
        return step

    def _linear(self, e: sympy.Expr, variables: dict[str, Variable | None]) -> tuple[sympy.Expr, set[sympy.Expr]]:
        """Return the step of an expression, and factors: its value for the first element of a vector is a sum of
        multiples of them."""
        if e in self.units:
            return sympy.Integer(1), set()
        if not any(s in self.units or is_value(s) for s in e.free_symbols):
            return sympy.Integer(0), {self._multiple(term) for term in sympy.Add.make_args(sympy.expand(e))}
        if isinstance(e, sympy.Symbol):
            if not self.is_uniform(variables.get(e.name)):
                raise Varying
            return sympy.Integer(0), {sympy.Integer(1)}
        if isinstance(e, Identity):
            return self._linear(e.args[0], variables)
        if not isinstance(e, sympy.Add | sympy.Mul | FloorDiv | ModularIndexing):
            raise Varying
        parts = [self._linear(a, variables) for a in e.args]
        if isinstance(e, sympy.Add):
            return sympy.Add(*(step for step, _ in parts)), set().union(*(factors for _, factors in parts))
        if all(step == 0 for step, _ in parts):
            return sympy.Integer(0), {self._multiple(e)}
        if isinstance(e, sympy.Mul):
            at = next(i for i, (step, _) in enumerate(parts) if step != 0)
            scale = sympy.Mul(*(a for i, a in enumerate(e.args) if i != at))
            if not self._is_size(scale):
                raise Varying
            return parts[at][0] * scale, {f * scale for f in parts[at][1]}
        if parts[0][0] != 1 or any(step != 0 for step, _ in parts[1:]):
            raise Varying
        self.factors |= parts[0][1] | {e.args[1] if e.args[1] != 1 else e.args[2]}
        counts = isinstance(e, ModularIndexing) and e.args[1] == 1
        return sympy.Integer(counts), set() if counts else {sympy.Integer(1)}

    def _multiple(self, term: sympy.Expr) -> sympy.Expr:
        """Return the product of a term's numbers and sizes. The term is a multiple of it."""
        return sympy.Mul(*(f for f in sympy.Mul.make_args(term) if self._is_size(f)))

    def _is_size(self, e: sympy.Expr) -> bool:
        """Return whether an expression contains neither index variables nor values of the kernel."""
        return not any(s in self.kernel.range_tree_nodes or is_value(s) for s in e.free_symbols)

    def is_uniform(self, value: Any) -> bool:
        """Return whether a value is the same for all elements of a vector."""
        if not isinstance(value, Variable):
            return isinstance(value, int | float | str | tuple | torch.dtype)
        if id(value) not in self.uniform:
            try:
                self.uniform[id(value)] = self._is_uniform(*value.operation)
            except Varying:
                self.uniform[id(value)] = False
        return self.uniform[id(value)]

    def _is_uniform(self, name: str, args: tuple[Any, ...]) -> bool:
        if name in ("", "masked"):
            return False
        if name in INDICES:
            return self._linear(self.kernel.prepare_indexing(args[0]), {})[0] == 0
        if name == "load":
            return self._linear(*args)[0] == 0
        return all(map(self.is_uniform, args)) or (name in ORDERINGS and self._is_uniform_ordering(name, *args))

    def _is_uniform_ordering(self, name: str, a: Any, b: Any) -> bool:
        """Return whether a comparison of indices changes only between vectors. If so, it is equivalent to `e < 0` or
        `e >= 0` for an expression e with step 1 that is a multiple of the vector size for the first element."""
        difference = self._index(a) - self._index(b)
        strict = name in ("lt", "ge")
        step = self._linear(difference, {})[0]
        if step == 1:
            ordered = difference if strict else difference - 1
        elif step == -1:
            ordered = -difference - 1 if strict else -difference
        else:
            return False
        self.step(sympy.expand(ordered), {})
        return True

    def _index(self, value: Any) -> sympy.Expr:
        """Return the index that a value is equal to."""
        if isinstance(value, int) and not isinstance(value, bool):
            return sympy.Integer(value)
        name, args = value.operation if isinstance(value, Variable) else ("", ())
        if name in INDICES:
            return self.kernel.prepare_indexing(args[0])
        if name == "constant" and isinstance(args[0], int):
            return sympy.Integer(args[0])
        if name == "to_dtype" and args[1] in (torch.int64, torch.int32):
            return self._index(args[0])
        raise Varying
