"""Inductor's ops.*, implemented as calls to the rows of tables.py."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.mps import DTYPE_TO_METAL, MetalOverrides
from torch._inductor.ops_handler import OP_NAMES
from torch._inductor.virtualized import OpsValue, V

from .tables import Row, function_name, rows

METAL_TYPES = {**DTYPE_TO_METAL, torch.uint16: "ushort", torch.uint32: "uint", torch.uint64: "ulong",
               torch.float64: "float"}  # fmt: skip
NARROW = (torch.uint8, torch.int8, torch.int16)
# Inductor operations whose table rows have a different name. Contraction is off, so multiplications and divisions
# always round, and div_rn and mul_rn need no rows of their own.
ALIASES = {"truediv": "div", "div_rn": "div", "int_truediv": "div", "mul_rn": "mul", "truncdiv": "div_trunc",
           "floordiv": "floor_divide", "mod": "fmod", "and_": "bitwise_and", "or_": "bitwise_or", "xor": "bitwise_xor",
           "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "gammainc": "igamma",
           "gammaincc": "igammac"}  # fmt: skip


def dtype_of(value: Any) -> torch.dtype:
    """Return the dtype of an operand of an ops.* call."""
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, int):
        return torch.int64
    value = value.value if isinstance(value, OpsValue) else value
    dtype = getattr(value, "dtype", None) or torch.float32
    if isinstance(dtype, str):  # a variable for the result of a reduction, which has a Metal type
        return next((known for known, name in METAL_TYPES.items() if name == dtype), torch.float32)
    return dtype


def compute_type(row: Row, dtypes: Sequence[torch.dtype]) -> str:
    """Return the type in which a row computes for operands of these dtypes."""
    dtype = functools.reduce(torch.promote_types, dtypes)
    if row.types == "FLOAT" or dtype.is_floating_point:
        return "float"
    if dtype == torch.bool and row.types in ("REAL", "INT"):
        return "int"
    return METAL_TYPES[dtype]


def literal(value: Any, kind: str) -> str:
    """Return a number as a literal of a Metal type."""
    if kind == "bool":
        return "true" if value else "false"
    if kind != "float":
        value = int(value)
        if value == -(1 << 63):
            return "(-9223372036854775807l - 1l)"
        return f"{kind}({value}{'l' if abs(value) >> 31 else ''}{'' if value < 1 << 63 else 'u'})"
    value = float(value)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"({value!r}f)"  # keep all digits of the double, because Inductor merges equal code


def operand(value: Any, kind: str) -> str:
    """Return the code for an operand: a variable or a literal."""
    return literal(value, kind) if isinstance(value, bool | int | float) else str(value)


def call(row: Row, values: Sequence[Any], scalars: Sequence[float] = (), element: str = "") -> str:
    """Return the code for a call of a row, and record that the kernel uses the row."""
    kind = compute_type(row, [*map(dtype_of, values)])
    element = element if row.needs_element_type and element else kind
    V.kernel.functions.add((row.name, kind, element))
    arguments = [operand(v, kind) for v in values]
    if row.scalars:
        given = [*scalars, *[0] * (3 - len(scalars))]
        arguments += [literal(s, kind) for s in given]
    return f"{function_name(row, kind, element)}({', '.join(arguments)})"


class Overrides(MetalOverrides):
    """Generates the code for each Inductor operation. Methods named after rows are added below."""

    @staticmethod
    def mpsx_row(name: str, element: str, scalars: tuple[float, ...], *values: CSEVariable) -> str:
        """Call a row for an element type. Only mpsx's lowerings emit this operation."""
        return call(rows()[name], values, scalars, element)

    @staticmethod
    def load_seed(name: str, offset: int) -> str:
        """Return the seed of a random operator. Its index is an argument, so that layers share a kernel."""
        args = V.kernel.args
        return f"{args.input(name)}[{args.seed_offset('load_seed_offset', offset)}]"

    @staticmethod
    def constant(value: bool | float | int, dtype: torch.dtype) -> str:
        """Return a constant as a literal of its dtype."""
        return literal(value, "float" if dtype.is_floating_point else METAL_TYPES[dtype])

    @staticmethod
    def to_dtype(x: CSEVariable, dtype: torch.dtype, src_dtype: torch.dtype | None = None,
                 use_compute_types: bool = True) -> str:  # fmt: skip
        """Convert as the eager kernels do (`convert` in metal/elementwise/copy.metal). A conversion to a half type
        rounds, but still yields a float, because kernels compute in float."""
        source = dtype_of(x)
        if dtype == torch.bool:
            return f"({x} != 0)" if source != torch.bool else f"{x}"
        if dtype in NARROW and source.is_floating_point:
            return f"{METAL_TYPES[dtype]}(int({x}))"
        if dtype in (torch.float16, torch.bfloat16):
            return f"float({METAL_TYPES[dtype]}(float({x})))"
        return f"{METAL_TYPES[dtype]}({x})"

    @staticmethod
    def masked(mask: CSEVariable, body: Callable[[], Any], other: Any) -> CSEVariable:
        """Compute the body where the mask is true."""
        with V.kernel.under_mask(mask):
            return MetalOverrides.masked(mask, body, other)

    @staticmethod
    def where(condition: CSEVariable, a: Any, b: Any) -> str:
        """Convert both values to their common type, and select one of them."""
        dtype = torch.promote_types(dtype_of(a), dtype_of(b))
        kind = "float" if dtype.is_floating_point else METAL_TYPES[dtype]
        return f"({condition} ? {kind}({operand(a, kind)}) : {kind}({operand(b, kind)}))"

    @staticmethod
    def to_dtype_bitcast(x: CSEVariable, dtype: torch.dtype, src_dtype: torch.dtype) -> str:
        """Reinterpret the bits of a value."""
        bits = f"as_type<{METAL_TYPES[dtype]}>({METAL_TYPES[src_dtype]}({x}))"
        return f"float({bits})" if dtype in (torch.float16, torch.bfloat16) else bits

    @staticmethod
    def frexp(x: CSEVariable) -> tuple[str, str]:
        """Return the mantissa and the exponent."""
        return call(rows()["frexp_mantissa"], [x]), call(rows()["frexp_exponent"], [x])

    @staticmethod
    def halide_clamp(value: CSEVariable, size: Any, check: bool) -> CSEVariable:
        """Return the value unchanged. Only Halide needs the bounds."""
        return value


def _override(row: Row) -> Callable[..., str]:
    def override(*values: Any) -> str:
        return call(row, values, (1,))  # the factor of add and sub

    override.__doc__ = f"Call {row.name}."
    return override


def _defined() -> dict[str, Row]:
    by_operator = {row.operator: row for row in rows().values() if not row.scalars or row.number == "ALPHA"}
    names = {name: by_operator.get(ALIASES.get(name, name)) for name in OP_NAMES}
    return {name: row for name, row in names.items() if row and name not in Overrides.__dict__}


DEFINED = _defined()  # Inductor operations that call rows
for _name, _row in DEFINED.items():
    setattr(Overrides, _name, staticmethod(_override(_row)))
