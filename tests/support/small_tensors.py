"""Shorthand constructors for small tensors."""

from __future__ import annotations

import torch


def t(values: object, d: str, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=d)


def zeros(d: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.zeros(shape or (3,), dtype=dtype, device=d)


def ones(d: str, dtype: torch.dtype = torch.float32, *shape: int) -> torch.Tensor:
    return torch.ones(shape or (3,), dtype=dtype, device=d)
