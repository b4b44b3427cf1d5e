"""Atomics and SIMD-group matrices: Metal Shading Language Specification, sections 2.6, 2.4, and 6.15."""

import re

from ..source import MslError
from .rules import rule
from .types import BUILTIN

ATOMIC = {"int", "uint", "bool", "ulong", "float", "int32_t", "uint32_t", "uint64_t", "unsigned", "unsigned int",
          "unsigned long"}
ORDERS = tuple(f"memory_order_{order}" for order in ("consume", "acquire", "release", "acq_rel", "seq_cst"))
SIMDGROUP_TYPES = ("simdgroup_float8x8", "simdgroup_half8x8", "simdgroup_bfloat8x8")
SIMDGROUP_TYPE = re.compile(r"simdgroup_(bool|u?char|u?short|u?int|u?long|half|bfloat|float)\d+x\d+")
MATRIX = {"half", "bfloat", "float", "bfloat16_t"}


def call_of(src, i):
    """Return the name of the function whose argument list contains token i."""
    depth = 0
    while i > 0:
        i -= 1
        if src.texts[i] in ")]}":
            depth += 1
        elif src.texts[i] in "([{":
            depth -= 1
            if depth < 0:
                return src.texts[i - 1] if src.texts[i] == "(" else ""
        elif src.texts[i] == ";" and depth == 0:
            return ""
    return ""


@rule
def atomic_types(unit):
    """2.6: atomic<T> exists for int, uint, bool, ulong and float."""
    src = unit.src
    for i, _ in unit.find("atomic", "_atomic"):
        if src.texts[i + 1 : i + 2] != ["<"]:
            continue
        try:
            end = src.angle_end(i + 1)
        except MslError:
            continue
        name = src.span(i + 2, end).replace("metal :: ", "")
        if name in BUILTIN - ATOMIC or name in unit.tree.classes:
            yield i, f"'atomic<{name}>': expected int, uint, bool, ulong or float (section 2.6)"


@rule
def memory_orders(unit):
    """6.15.1: atomic operations use relaxed order. Only atomic_thread_fence accepts other orders."""
    src = unit.src
    for i, t in unit.find(*ORDERS):
        function = call_of(src, i)
        if function.startswith("atomic_") and function != "atomic_thread_fence":
            yield i, f"{function}: expected memory_order_relaxed, got {t} (section 6.15.1)"


@rule
def simdgroup_matrix_types(unit):
    """2.4: simdgroup_matrix<T, 8, 8> exists for half, bfloat and float."""
    src = unit.src
    for t in unit.index:
        if SIMDGROUP_TYPE.fullmatch(t) and t not in SIMDGROUP_TYPES:
            yield unit.index[t][0], f"'{t}': expected one of {', '.join(SIMDGROUP_TYPES)} (section 2.4)"
    for i, _ in unit.find("simdgroup_matrix"):
        if src.texts[i + 1 : i + 2] != ["<"]:
            continue
        parts = src.split(i + 2, src.angle_end(i + 1))
        if len(parts) != 3:
            continue
        element, columns, rows = (src.span(a, b).replace("metal :: ", "") for a, b in parts)
        if element in BUILTIN - MATRIX:
            yield i, f"'simdgroup_matrix<{element}, …>': expected half, bfloat or float (section 2.4)"
        elif any(n.isdigit() and n != "8" for n in (columns, rows)):
            yield i, f"'simdgroup_matrix<{element}, {columns}, {rows}>': expected 8 columns and 8 rows (section 2.4)"
