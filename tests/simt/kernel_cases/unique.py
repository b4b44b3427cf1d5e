"""unique along a dimension."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tables import DTYPES, FLOAT, TAGS

from kernel_cases import Case, case, values


def cases() -> Iterator[Case]:
    for dtype in DTYPES["REAL"]:
        x = values(133, 3, dtype=dtype, low=0, high=2)
        x = x.round() if dtype in FLOAT else x
        yield case(f"unique rows {TAGS[dtype]}", lambda x: torch.unique(x, dim=0, return_inverse=True), x,
                   reference="same")  # fmt: skip
