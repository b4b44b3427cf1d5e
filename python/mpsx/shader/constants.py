"""Values of function constants: as text, for the key of a compiled kernel, and as C++, to compile the kernel."""

from __future__ import annotations

import math
import re
import struct

BITS = {"bool": 1, "char": 8, "short": 16, "int": 32, "long": 64}  # of integers; the others have the prefix "u"
FLOATS = ("float", "half", "bfloat")


def constant_texts(kernel: str, values: dict[object, object]) -> dict[object, str]:
    """Convert values to text. The keys are names or indices. Raises TypeError for any other key, and for values other
    than numbers and lists."""
    for name in values:
        if not (isinstance(name, str) and name.isidentifier()) and not (type(name) is int and name >= 0):
            raise TypeError(f"{kernel}: expected a function constant's name or index, got {name!r}")
    return {name: _text(kernel, name, value) for name, value in values.items()}


def _text(kernel: str, name: object, value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(_text(kernel, name, element) for element in value)
    if isinstance(value, bool):
        return "1" if value else "0"
    if hasattr(value, "__index__"):
        return str(value.__index__())
    if hasattr(value, "__float__") and not isinstance(value, str):
        return repr(float(value))
    raise TypeError(
        f"{kernel}: function constant {name}: expected a number, a bool or a list of them, got {type(value).__name__}"
    )


def is_missing(kernel: dict, texts: dict[object, str]) -> bool:
    """Return whether a required constant has no value. `kernel` is a description from msl/library.py, and `texts` has
    values by name or index."""
    return any(c["required"] and c["name"] not in texts and c["index"] not in texts for c in kernel["constants"])


def initializers(kernel: str, constants: list[dict], texts: dict[object, str]) -> dict[int, str]:
    """Convert values by name or index to C++ initializers by position in `constants`, which describes all function
    constants of the source. Raises RuntimeError, which names the kernel and the constant."""
    found: dict[int, str] = {}
    for name, text in texts.items():
        at = next((i for i, c in enumerate(constants) if name in (c["name"], c["index"])), None)
        if at is None:
            known = ", ".join(f"{c['name']} ({c['type']}, index {c['index']})" for c in constants)
            kind = "named" if isinstance(name, str) else "of index"
            raise RuntimeError(f"{kernel}: no function constant {kind} {name}{f'; it has {known}' if known else ''}")
        constant = constants[at]
        start = f"{kernel}: function constant {constant['name']}"
        if at in found:
            raise RuntimeError(f"{start} is given twice")
        if not constant["type"]:
            raise RuntimeError(f"{start} has a type that cannot be set")
        scalar, count = re.fullmatch(r"([a-z]+)([234]?)", constant["type"]).groups()
        parts = [_literal(part, scalar) for part in text.split(",")]
        if None in parts or len(parts) != int(count or 1):
            raise RuntimeError(f"{start}: expected a value of type {constant['type']}, got {text}")
        found[at] = ", ".join(parts)
    return found


def _literal(text: str, scalar: str) -> str | None:
    """Return a C++ literal for a number of a scalar type, or None if the type does not have this value."""
    if scalar in FLOATS:
        value = float(text)
        try:
            (value,) = struct.unpack("f", struct.pack("f", value))
        except OverflowError:
            value = math.copysign(math.inf, value)
        if math.isnan(value):
            return '__builtin_nanf("")'
        return f"{'-' if value < 0 else ''}__builtin_inff()" if math.isinf(value) else f"{value.hex()}f"
    if not re.fullmatch(r"-?\d+", text):
        return None
    value, bits = int(text), BITS[scalar.removeprefix("u")]
    is_unsigned = scalar == "bool" or scalar[0] == "u"
    low, high = (0, 2**bits) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not low <= value < high:
        return None
    if scalar == "bool":
        return "true" if value else "false"
    return f"{value}ull" if is_unsigned else f"({value + 1}ll - 1)" if value < 0 else f"{value}ll"
