"""Compare tensor dtypes with the element types of a kernel's buffers (in the notation of msl/element_types.py).

Kernels read raw bytes, and some mismatches are intended. Packed and reinterpreted data is accepted. Numbers in one
format that the kernel would read as a different format are reported.
"""

from __future__ import annotations

import functools

import torch

FLOATS = {"half": torch.float16, "bfloat": torch.bfloat16, "float": torch.float32}
SIZES = {"bool": 1, "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8,
         "half": 2, "bfloat": 2, "float": 4}  # fmt: skip
NUMBERS = {torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
           torch.float16, torch.bfloat16, torch.float32, torch.float64}  # fmt: skip
COMPLEX = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


@functools.cache
def fits(element: str, dtype: torch.dtype, is_reference: bool) -> bool:
    """Return whether a tensor of this dtype is plausible for this element type. Unknown types are plausible.

    `is_reference`: whether the parameter is a single value, in which case the low bytes of a wider integer are enough.
    """
    atomic, count = element.startswith("atomic "), 1
    element = element.removeprefix("atomic ")
    scalar, _, components = element.partition(" ")
    if components:
        count = int(components)
    if dtype in COMPLEX:
        return scalar not in FLOATS or FLOATS[scalar] == COMPLEX[dtype]
    if dtype not in NUMBERS or scalar not in SIZES:  # treat uint8, float8, and quantized tensors as raw bytes
        return True
    size = SIZES[scalar]
    if scalar in FLOATS:
        packed = not dtype.is_floating_point and count > 1 and size * count == dtype.itemsize
        return dtype == FLOATS[scalar] or packed
    if size == 1 and (scalar != "bool" or dtype == torch.int8):
        return True
    if atomic and (scalar == "uint" or dtype.itemsize == size):  # c10/metal/atomic.h packs small numbers into words
        return True
    if dtype.is_floating_point:  # kernels may read bit patterns as unsigned integers
        return scalar[0] == "u" and dtype.itemsize in (size, size * count)
    wide = is_reference and dtype.itemsize > size
    return dtype.itemsize in (size, size * count) or wide


def mismatches(kernel: dict, arguments: tuple) -> list[str]:
    """Describe each tensor argument whose dtype does not match. `kernel` is a description from msl/library.py."""
    found = []
    for buffer, element in zip(kernel["buffers"], kernel["elements"], strict=True):
        index = buffer["index"]
        if buffer["space"] == "threadgroup" or not element or index >= len(arguments):
            continue
        tensor = arguments[index]
        if isinstance(tensor, torch.Tensor) and not fits(element, tensor.dtype, "&" in buffer["text"].split()):
            found.append(f"parameter '{buffer['name']}' (buffer {index}) is '{buffer['text']}' with elements of type "
                         f"{spelled(element)}, but got a tensor of {tensor.dtype}")  # fmt: skip
    return found


def spelled(element: str) -> str:
    """Return Metal's name for an element type."""
    scalar, _, count = element.removeprefix("atomic ").partition(" ")
    text = scalar if not count else f"{scalar}{count}" if int(count) <= 4 else f"matrices of {scalar}"
    return f"atomic<{text}>" if element.startswith("atomic ") else text
