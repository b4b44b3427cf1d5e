"""Encode the values of function constants."""

from __future__ import annotations

import contextlib
import struct

import torch

from .kernel import Constant, Kernel

LARGEST = 32  # size of the largest type, long4
FLOATS = {"float": torch.float32, "half": torch.float16, "bfloat": torch.bfloat16}
INTEGERS = {"bool": "B", "char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "long": "q",
            "ulong": "Q"}  # fmt: skip


def definitions(kernel: Kernel, texts: dict[object, str]) -> dict[str, str]:
    """Return the variable of each constant with its type and value in LLVM IR: an array of bytes, which LLVM converts
    to the type of each load. A constant without a valid value is 0. The driver reports invalid values."""
    found = {}
    for c in kernel.constants:
        data = b""
        with contextlib.suppress(ValueError, KeyError, struct.error):
            data = _encode(c, texts.get(c.name, texts.get(c.index, "")).split(","))
        escaped = "".join(f"\\{byte:02X}" for byte in data.ljust(LARGEST, b"\0"))
        found[c.symbol] = f'[{LARGEST} x i8] c"{escaped}"'
    return found


def _encode(constant: Constant, parts: list[str]) -> bytes:
    if constant.scalar in FLOATS:
        numbers = torch.tensor([float(part) for part in parts], dtype=torch.float32).to(FLOATS[constant.scalar])
        return bytes(numbers.view(torch.uint8).tolist())
    return struct.pack(f"<{len(parts)}{INTEGERS[constant.scalar]}", *map(int, parts))
