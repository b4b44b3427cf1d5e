"""Dtypes, directions, statuses, and drivers. This module must not import torch."""

from __future__ import annotations

from typing import Any

DTYPES = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16",
    "i8": "int8", "u8": "uint8", "bool": "bool", "c64": "complex64", "f64": "float64", "c128": "complex128",
    "c32": "complex32", "u16": "uint16", "u32": "uint32", "u64": "uint64", "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "f8e4m3u": "float8_e4m3fnuz", "f8e5m2u": "float8_e5m2fnuz", "bc32": "bcomplex32",
}  # fmt: skip
TAGS = list(DTYPES)
DIRECTIONS = ("forward", "backward")
MORE_DIRECTIONS = ("double_backward", "forward_mode")
DRIVERS = ("host", "simt", "metal", "cuda")

# Ordered from worst to best. A case has the status of its worst sample.
STATUSES = {
    "fails": "differs from the CPU, raises, or crashes",
    "fallback": "an operator without a kernel ran on the CPU",
    "vendor": "no fallback; a CPU library computed something",
    "native": "only Metal kernels ran",
    "view": "nothing ran: a view, or a query of shape or dtype",
    "untested": "the CPU rejects every sample, or there is no result to compare",
}
SHOWN = ("native", "vendor", "view", "fallback", "fails", "untested")  # in display order


def tag_of(dtype: Any) -> str:
    """Return the tag of a torch.dtype, such as "f32"."""
    name = str(dtype).removeprefix("torch.")
    return next(tag for tag, full in DTYPES.items() if full == name)
