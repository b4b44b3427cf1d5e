"""Convert values of function constants to text, for the key of a compiled kernel."""

from __future__ import annotations


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
