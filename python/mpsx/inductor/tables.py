"""The elementwise functions that generated kernels call, taken from the rows of the tables in metal/elementwise and of
metal/optim/foreach.def.

Eager kernels instantiate the same rows, so a row defines a function for both kinds of kernels.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..shader.kernel_library import SOURCES

ROW = re.compile(r"^MPSX_(\w+)\(", re.M)
# The number of columns in each macro. The last column is the expression, which may contain commas.
COLUMNS = {"UNARY": 4, "BINARY": 8, "COMPARE": 4, "ACTIVATION": 2, "ACTIVATION_BACKWARD": 2, "SPECIAL": 3,
           "SPECIAL_BINARY": 5, "RARE_BINARY": 4, "COMPLEX": 4, "COMPLEX_BINARY": 4, "COMPLEX_TERNARY": 2,
           "FOREACH_UNARY": 2, "FOREACH_BINARY": 2, "FOREACH_SCALED": 2, "FOREACH_POINTWISE": 2}  # fmt: skip
SCALARS = re.compile(r"\bs\.[abc]\b")
MATH = ("elementwise/rounding.h", "elementwise/fused.h", "elementwise/shift.h", "lib/arithmetic.h", "lib/math.h")
ACTIVATION, SPECIAL = ("elementwise/activation.h",), ("elementwise/special.h",)
DIVISION, TERNARY = ("elementwise/division.h",), ("elementwise/ternary.h",)


@dataclass(frozen=True)
class Row:
    """One function. Its expression uses the operands, the scalars s.a, s.b and s.c, and the types C (compute type) and
    T (element type)."""

    name: str
    expression: str
    operands: tuple[str, ...]
    headers: tuple[str, ...]
    types: str = "FLOAT"  # supported element types: FLOAT, REAL, INT, BITS, or ALL, as in lib/instantiate.h
    returns_bool: bool = False
    promotion: str = "COMMON"  # COMMON, FLOATING (integers become float), or SAME (no promotion)
    number: str = "ROUNDED"  # scalars: ROUNDED (to the element type), EXACT, or ALPHA (ROUNDED, with a factor s.a)
    overload: str = ""
    calls: bool = False  # called, not inlined
    table: str = ""  # the .def file that contains the row
    passes_scalars: bool = False  # the expression passes s on to a function

    @property
    def operator(self) -> str:
        """The name of Inductor's operation for this row, without the prefix special_."""
        return self.name.removeprefix("special_")

    @property
    def scalars(self) -> bool:
        """Whether the expression uses scalar arguments."""
        return self.passes_scalars or bool(SCALARS.search(self.expression))

    @property
    def needs_element_type(self) -> bool:
        """Whether the result depends on the element type in addition to the compute type."""
        return re.search(r"\bT\b", self.expression) is not None


def rows_of(name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the macro and arguments of each row of a table. The last argument is the expression."""
    folder = "optim" if name == "foreach" else "elementwise"
    text = re.sub(r"//.*", "", (SOURCES / folder / f"{name}.def").read_text())
    for found in ROW.finditer(text):
        depth, at = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        parts = text[found.end() : at - 1].split(",", COLUMNS[found[1]] - 1)
        yield found[1], [" ".join(part.split()) for part in parts]


def _row(table: str, macro: str, arguments: list[str]) -> Row | None:
    name, *properties, expression = arguments
    common = {"name": name, "expression": expression, "table": table}
    if macro == "UNARY":
        types, result = properties
        return Row(**common, operands=("x",), headers=MATH, types=types, returns_bool=result == "BOOL",
                   promotion="FLOATING" if types == "FLOAT" else "COMMON")  # fmt: skip
    if macro == "BINARY":
        overload, types, result, promotion, _, number = properties
        return Row(**common, operands=("a", "b"), headers=MATH, types=types, returns_bool=result == "BOOL",
                   promotion=promotion, number=number, overload=overload)  # fmt: skip
    if macro == "COMPARE":
        return Row(**common, operands=("a", "b"), headers=MATH, types="ALL", returns_bool=True)
    if macro == "ACTIVATION":
        return Row(**common, operands=("x",), headers=ACTIVATION, promotion="SAME")
    if macro == "ACTIVATION_BACKWARD":
        return Row(**common, operands=("g", "x"), headers=ACTIVATION, promotion="SAME")
    if macro == "SPECIAL":
        return Row(**common, operands=("x",), headers=SPECIAL, promotion="FLOATING", calls=properties[0] == "CALL")
    if macro == "SPECIAL_BINARY":
        overload, promotion, kind = properties
        return Row(**common, operands=("a", "b"), headers=SPECIAL, promotion=promotion, overload=overload,
                   calls=kind == "CALL")  # fmt: skip
    if macro == "RARE_BINARY":
        types, promotion = properties
        return Row(**common, operands=("a", "b"), headers=SPECIAL, types=types, promotion=promotion)
    if macro.startswith("FOREACH"):  # in this table, s is a number
        operands = {"FOREACH_UNARY": "x", "FOREACH_POINTWISE": "xyz"}.get(macro, "xy")
        return Row(f"foreach_{name}", re.sub(r"\bs\b", "s.a", expression), tuple(operands), MATH,
                   promotion="SAME", number="EXACT", table=table)  # fmt: skip
    return None  # Inductor leaves complex numbers to the eager kernels


def _function(name: str, operands: str, headers: tuple[str, ...], types: str = "REAL", call: str = "",
              **properties: str | bool) -> Row:  # fmt: skip
    """Return the row for a function whose eager kernels are not generated from a table. By default, the expression
    calls `<name>_op::apply`."""
    call = call or f"{name}_op::apply<C>({', '.join(operands)}, s)"
    return Row(name, call, tuple(operands), headers, types, table="functions", **properties)


# Functions that are in no table, and Inductor operations that are not named after an operator.
FUNCTIONS = [
    *(_function(name, "ab", DIVISION, number="EXACT" if name == "floor_divide" else "ROUNDED")
      for name in ("floor_divide", "div_trunc", "fmod", "remainder", "pow")),
    _function("square", "x", DIVISION),
    _function("cube", "x", DIVISION),
    _function("inverse_square", "x", DIVISION, "FLOAT"),
    _function("addcmul", "xab", TERNARY, call="addcmul_op::apply<C, C>(x, a, b, s)", passes_scalars=True),
    _function("addcdiv", "xab", TERNARY, "FLOAT", "addcdiv_op::apply<C, C>(x, a, b, s)", passes_scalars=True),
    _function("lerp", "abw", TERNARY, "FLOAT", "lerp_op::apply<C, C>(a, b, w, s)", number="EXACT"),
    _function("lerp_number", "ab", TERNARY, "FLOAT", passes_scalars=True),
    _function("glu_gate_backward", "gax", TERNARY, "FLOAT", "glu_gate_backward_op::apply<C, C>(g, a, x, s)"),
    _function("clamp", "xab", TERNARY, call="clamp_op::apply<C, C>(x, a, b, s)"),
    _function("clamp_numbers", "x", TERNARY, passes_scalars=True),
    _function("polygamma", "nx", SPECIAL, "FLOAT", "polygamma_of(n, x)", promotion="FLOATING", calls=True),
    _function("ldexp", "xk", SPECIAL, "FLOAT"),
    _function("frexp_mantissa", "x", SPECIAL, "FLOAT", "frexp_op::apply<C>(x, s)"),
    _function("frexp_exponent", "x", SPECIAL, "FLOAT"),
    _function("ndtr", "x", MATH, "FLOAT", "(1.0f + erf(x * 0.707106781f)) * 0.5f", promotion="FLOATING"),
    _function("fma", "abc", MATH, "FLOAT", "fma(a, b, c)"),
    _function("isinf", "x", MATH, "ALL", "is_infinite(x)", returns_bool=True),
]  # fmt: skip


@functools.cache
def rows() -> dict[str, Row]:
    """Return all rows by name."""
    found = {}
    for table in ("unary", "binary", "compare", "activation", "special", "complex", "foreach"):
        for macro, arguments in rows_of(table):
            if row := _row(table, macro, arguments):
                found[row.name] = row
    for row in FUNCTIONS:
        found.setdefault(row.name, row)
    return found


def function_name(row: Row, compute: str, element: str) -> str:
    """Return the name of a row's function for a compute type, plus the element type if the result depends on it."""
    return f"row_{row.name}_{compute}" + (f"_{element}" if row.needs_element_type else "")


def source(keys: list[tuple[str, str, str]]) -> str:
    """Return Metal source that defines functions. Each key is (name of the row, compute type, element type)."""
    found = {function_name(rows()[name], *types): (rows()[name], *types) for name, *types in keys}
    headers = dict.fromkeys(h for row, *_ in found.values() for h in (*row.headers, "elementwise/scalars.h"))
    text = "".join(f'#include "{header}"\n' for header in headers)
    if any("exact(" in row.expression for row, *_ in found.values()):
        text += "template <typename T>\ninline T exact(T x) { return x; }\n"  # as in elementwise/kernels.h
    for name, (row, compute, element) in sorted(found.items()):
        operands = ", ".join(f"{compute} {operand}" for operand in row.operands)
        parameters = f"{compute} scalar_a, {compute} scalar_b, {compute} scalar_c" if row.scalars else ""
        scalars = "const Scalars<C> s = {scalar_a, scalar_b, scalar_c};" if row.scalars else "const Scalars<C> s = {};"
        text += f"""{"__attribute__((noinline)) " * row.calls}inline {result_type(row, compute)} {name}(
    {operands}{", " * bool(parameters)}{parameters}) {{
  typedef {compute} C;
  typedef {element} T;
  {scalars}
  return (void)s, {row.expression};
}}
"""
    return text


def result_type(row: Row, compute: str) -> str:
    """Return the C++ type of a row's result."""
    if row.returns_bool:
        return "bool"
    return "int" if row.name == "frexp_exponent" else compute
