"""The matrix's vocabulary: element types, directions, statuses, drivers. Needs no torch."""

from __future__ import annotations

from typing import Any

DTYPES = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16",
    "i8": "int8", "u8": "uint8", "bool": "bool", "c64": "complex64", "f64": "float64", "c128": "complex128",
    "c32": "complex32", "u16": "uint16", "u32": "uint32", "u64": "uint64", "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "f8e4m3u": "float8_e4m3fnuz", "f8e5m2u": "float8_e5m2fnuz",
}  # fmt: skip
TAGS = list(DTYPES)
DIRECTIONS = ("forward", "backward")
MORE_DIRECTIONS = ("double_backward", "forward_mode")
DRIVERS = ("host", "simt", "metal", "cuda")

# In the order in which one sample decides over the others: an operator is as good as its worst sample.
STATUSES = {
    "fails": "differs from the CPU, raises, or ends the process",
    "fallback": "an operator ran on the CPU for want of a kernel",
    "vendor": "no fallback, and a library of the CPU's computed something",
    "native": "Metal kernels ran, and nothing else",
    "view": "nothing ran: a view, or a question about shape or type",
    "untested": "the CPU refuses every sample, or there is nothing to compare with",
}
SHOWN = ("native", "vendor", "view", "fallback", "fails", "untested")  # the order in which people see them


def tag_of(dtype: Any) -> str:
    """The tag of a torch.dtype: "f32"."""
    name = str(dtype).removeprefix("torch.")
    return next(tag for tag, full in DTYPES.items() if full == name)
