"""Tensor layouts that backends often handle incorrectly."""

from __future__ import annotations

import torch

LAYOUTS = ("contiguous", "transposed", "slice", "step", "expanded", "channels_last", "empty", "scalar")


def make(layout: str, dtype: torch.dtype, *, seed: int = 0, low: float = -3.0, high: float = 3.0) -> torch.Tensor:
    """Create a CPU tensor in the given layout with random values in [low, high], or random bools."""
    generator = torch.Generator().manual_seed(seed)

    def values(*shape: int) -> torch.Tensor:
        if dtype == torch.bool:
            return torch.rand(shape, generator=generator) < 0.5
        if dtype.is_floating_point or dtype.is_complex:
            return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)
        first = max(0, int(low)) if dtype == torch.uint8 else int(low)
        return torch.randint(first, int(high) + 1, shape, generator=generator).to(dtype)

    if layout == "contiguous":
        return values(5, 7, 9)
    if layout == "transposed":
        return values(9, 7, 5).permute(2, 1, 0)
    if layout == "slice":  # has a storage offset, and gaps between the rows
        return values(6, 9, 12)[1:, 1:8, 2:11]
    if layout == "step":
        return values(10, 7, 18)[::2, :, ::2]
    if layout == "expanded":
        return values(5, 1, 9).expand(5, 7, 9)
    if layout == "channels_last":
        return values(2, 7, 5, 3).to(memory_format=torch.channels_last)
    if layout == "empty":
        return values(0, 7, 9)
    if layout == "scalar":
        return values()
    raise ValueError(f"unknown layout {layout!r}")


def on_device(t: torch.Tensor, device: str = "mpsx") -> torch.Tensor:
    """Copy to `device` with the same strides and storage offset, which `.to` does not preserve."""
    storage = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    return storage.to(device).as_strided(t.shape, t.stride(), t.storage_offset())
