"""Check and describe the torch tensors that a call passes to Metal 4 tensor parameters."""

from __future__ import annotations

import torch

# Metal's names for PyTorch dtypes.
ELEMENTS = {
    torch.float16: b"half", torch.bfloat16: b"bfloat", torch.float32: b"float", torch.bool: b"bool",
    torch.int8: b"char", torch.int16: b"short", torch.int32: b"int", torch.int64: b"long",
    torch.uint8: b"uchar", torch.uint16: b"ushort", torch.uint32: b"uint", torch.uint64: b"ulong",
}  # fmt: skip
DTYPES = {name.decode(): dtype for dtype, name in ELEMENTS.items()}
BITS = {"char": 7, "uchar": 8, "short": 15, "ushort": 16, "int": 31, "uint": 32, "long": 63, "ulong": 64}
MAX_RANK = 8


def tensor_layout(kernel: str, index: int, buffer: dict | None, tensor: object) -> tuple[bytes, list[int], list[int]]:
    """Return a tensor's element type, sizes and strides. In Metal's order, dimension 0 varies fastest.

    `buffer` describes the parameter (see msl/library.py). If it is None, the driver checks the rank and type.
    """
    if not isinstance(tensor, torch.Tensor):
        raise RuntimeError(f"{_parameter(kernel, index, buffer)}: expected {_expected(buffer)}, "
                           f"got {type(tensor).__name__}")  # fmt: skip
    sizes, strides = list(tensor.shape)[::-1], list(tensor.stride())[::-1]
    wanted = buffer["tensor"] if buffer else {"element": "", "index": "", "extents": None}
    extents, element = wanted["extents"] or [None] * len(sizes), ELEMENTS.get(tensor.dtype, b"")
    fits = tensor.is_mpsx and element and 1 <= len(sizes) <= MAX_RANK and wanted["element"] in ("", element.decode())
    if not fits or len(extents) != len(sizes) or any(e not in (None, s) for e, s in zip(extents, sizes, strict=True)):
        raise RuntimeError(f"{_parameter(kernel, index, buffer)}: expected {_expected(buffer)}, got one of rank "
                           f"{tensor.dim()} and {tensor.dtype} on {tensor.device}, of shape {tuple(tensor.shape)}"
                           )  # fmt: skip
    limit = 2 ** BITS.get(wanted["index"], 64)
    if max(sizes) >= limit or max(strides) >= limit:
        raise RuntimeError(f"{_parameter(kernel, index, buffer)}: expected sizes and strides below {limit}, which its "
                           f"extents count with {wanted['index']}, got a tensor of shape {tuple(tensor.shape)} and "
                           f"strides {tensor.stride()}")  # fmt: skip
    return element, sizes, strides


def _parameter(kernel: str, index: int, buffer: dict | None) -> str:
    return f"{kernel}: parameter '{buffer['name']}' (buffer {index})" if buffer else f"{kernel}: argument {index}"


def _expected(buffer: dict | None) -> str:
    """Describe the tensors that a parameter accepts."""
    wanted = buffer["tensor"] if buffer else {"element": "", "extents": None}
    extents, element = wanted["extents"], wanted["element"]
    rank = f"rank {len(extents)}" if extents else f"rank 1 to {MAX_RANK}"
    dtype = DTYPES.get(element, element) if element else "a type of Metal's tensors"
    text = f"a tensor of {rank} and {dtype} on mpsx"
    if extents and any(e is not None for e in extents):
        text += f", of shape ({', '.join('any' if e is None else str(e) for e in reversed(extents))})"
    return text
