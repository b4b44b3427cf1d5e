"""Scans, sorts and selection by rank, for short rows, long rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from tables import DTYPES, FLOAT, TAGS

from kernel_cases import Case, case, values

LONG = 700  # needs a radix sort with several elements per thread
SCANNED = {"rows": ((2, LONG), 1), "many rows": ((66, 40), 1), "columns": ((21, 45), 0)}
CHUNKS = {"a row in chunks": ((1, 20001), 1), "columns in chunks": ((1500, 5), 0)}  # GPUs scan these shapes in chunks


def scanned(dtype: torch.dtype) -> Iterable[tuple]:
    """Generate (case name, shape, dimension to scan)."""
    return (SCANNED | CHUNKS if dtype in (torch.float32, torch.float16, torch.int64) else SCANNED).items()


def scans() -> Iterator[Case]:
    for dtype in DTYPES["REAL"]:
        reference = "exact" if dtype in FLOAT else "same"
        for where, (shape, dim) in scanned(dtype):
            x = values(*shape, dtype=dtype, low=0 if dtype in FLOAT else -3)
            label = f"of {where} {TAGS[dtype]}"
            # Scan in place to keep the dtype, because cumsum() sums integers as int64.
            yield case(f"cumsum {label}", lambda x, d: x.clone().cumsum_(d), x, dim, reference=reference)
            near_one = values(*shape, dtype=dtype, low=0.99, high=1.01)
            yield case(f"cumprod {label}", lambda x, d: x.clone().cumprod_(d), near_one, dim, reference=reference)
            if dtype in FLOAT:
                yield case(f"logcumsumexp {label}", torch.logcumsumexp, x, dim)


def extrema() -> Iterator[Case]:
    for dtype in DTYPES["ALL"]:
        for where, (shape, dim) in scanned(dtype):
            x = values(*shape, dtype=dtype)
            for function in (torch.cummax, torch.cummin):
                yield case(f"{function.__name__} of {where} {TAGS[dtype]}", function, x, dim, reference="same")


def sorts() -> Iterator[Case]:
    for dtype in DTYPES["ALL"]:
        for size in (100, LONG):
            x = values(2, size, dtype=dtype)
            label = f"{size} {TAGS[dtype]}"
            yield case(f"sort {label}", lambda x: torch.sort(x, dim=1, stable=True), x, reference="same")
            yield case(f"sort columns {label}", lambda x: torch.sort(x[:5], dim=0, stable=True), x, reference="same")
            if dtype != torch.bool:
                yield case(f"topk {label}", lambda x: torch.topk(x, 17).values, x, reference="same")
                yield case(f"half of {label}", lambda x: torch.topk(x, min(x.shape[1] // 2, 128)).values, x,
                           reference="same")  # fmt: skip
                yield case(f"median {label}", lambda x: x.median(1).values, x, reference="same")
            if size == LONG:
                long = values(2, 4100, dtype=dtype)  # too long for threadgroup memory
                yield case(f"sort of tiles {TAGS[dtype]}", lambda x: torch.sort(x, stable=True), long, reference="same")
            yield case(f"mode {label}", lambda x: x.mode(1).values, x, reference="same")
            yield case(f"mode of long rows {label}", lambda x: x.repeat(1, 4).mode(1).values, x, reference="same")


def cases() -> Iterator[Case]:
    yield from scans()
    yield from extrema()
    yield from sorts()
