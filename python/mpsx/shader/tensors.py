"""Check and describe the torch tensors that a call passes to Metal 4 tensor parameters."""

from __future__ import annotations

import torch

DTYPES = {
    "half": torch.float16, "bfloat": torch.bfloat16, "float": torch.float32, "bool": torch.bool,
    "char": torch.int8, "short": torch.int16, "int": torch.int32, "long": torch.int64,
    "uchar": torch.uint8, "ushort": torch.uint16, "uint": torch.uint32, "ulong": torch.uint64,
}  # fmt: skip
BITS = {"char": 7, "uchar": 8, "short": 15, "ushort": 16, "int": 31, "uint": 32}  # of index types below 64 bits
MAX_RANK = 8
ANY = -1  # an extent that a parameter leaves open


def rule(buffer: dict | None) -> tuple[bytes, int, list[int]]:
    """Return what a tensor parameter accepts: its element type, the largest size or stride, and the extents.

    The element type is empty and there are no extents if the driver checks them, in which case `buffer` may be None.
    Otherwise, `buffer` describes the parameter (see msl/library.py).
    """
    wanted = buffer["tensor"] if buffer else {"element": "", "index": "", "extents": None}
    extents = [ANY if e is None else e for e in wanted["extents"] or ()]
    return wanted["element"].encode(), 2 ** BITS.get(wanted["index"], 63) - 1, extents


def reject_tensor(kernel: str, index: int, buffer: dict | None, tensor: object) -> None:
    """Raise RuntimeError for an argument that a tensor parameter does not accept."""
    start = f"{_parameter(kernel, index, buffer)}: expected"
    if not isinstance(tensor, torch.Tensor):
        raise RuntimeError(f"{start} {_expected(buffer)}, got {type(tensor).__name__}")
    element, largest, extents = rule(buffer)
    sizes = list(tensor.shape)[::-1]
    fits = tensor.is_mpsx and 1 <= len(sizes) <= MAX_RANK and tensor.dtype in DTYPES.values()
    fits = fits and (not element or DTYPES.get(element.decode()) == tensor.dtype)
    fits = fits and len(extents) in (0, len(sizes))
    if fits and all(want in (ANY, size) for want, size in zip(extents, sizes, strict=False)):
        raise RuntimeError(f"{start} sizes and strides below {largest + 1}, which its extents count with "
                           f"{buffer['tensor']['index']}, got a tensor of shape {tuple(tensor.shape)} and strides "
                           f"{tensor.stride()}")  # fmt: skip
    raise RuntimeError(f"{start} {_expected(buffer)}, got one of rank {tensor.dim()} and {tensor.dtype} on "
                       f"{tensor.device}, of shape {tuple(tensor.shape)}")  # fmt: skip


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
