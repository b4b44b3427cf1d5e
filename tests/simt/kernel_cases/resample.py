"""Interpolation, padding, separable average pooling, grid_sample, pixel shuffles and searchsorted."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from tables import DTYPES, FLOAT, TAGS

from kernel_cases import Case, case, integers, values

aten = torch.ops.aten


def resampled() -> Iterator[Case]:
    """Resample a single dimension, and several dimensions with float intermediate results."""
    for dtype in FLOAT:
        tag = TAGS[dtype]
        line, plane = values(2, 3, 70, dtype=dtype), values(2, 3, 17, 19, dtype=dtype)
        for mode in ("nearest", "linear"):
            yield case(f"{mode} of a line {tag}", lambda x, m=mode: F.interpolate(x, scale_factor=2.5, mode=m), line)
        for mode in ("nearest", "bilinear", "bicubic"):  # one, two and four taps
            yield case(f"{mode} of a plane {tag}", lambda x, m=mode: F.interpolate(x, (9, 40), mode=m), plane)
            yield case(f"{mode}, larger {tag}", lambda x, m=mode: F.interpolate(x, (30, 40), mode=m), plane)
        g = values(2, 3, 75, dtype=dtype)
        yield case(f"pad a line, backward {tag}", aten.reflection_pad1d_backward, g, line, [2, 3])
        g = values(2, 3, 22, 19, dtype=dtype)
        yield case(f"pad a plane, backward {tag}", aten.reflection_pad2d_backward, g, plane, [0, 0, 3, 2])
        yield case(f"average of windows {tag}", lambda x: F.avg_pool3d(x, (1, 2, 2)), plane[None])
    picture = values(2, 3, 17, 20, dtype=torch.uint8, low=0, high=255)
    for mode in ("nearest", "bilinear", "bicubic"):
        for size in ((9, 40), (9, 10)):
            yield case(f"{mode} of bytes to {size}", lambda x, m=mode, s=size: F.interpolate(x, s, mode=m), picture,
                       reference="same")  # fmt: skip


def searched() -> Iterator[Case]:
    """Search boundaries that all inputs share, and boundaries that differ between rows of inputs."""
    for dtype in DTYPES["REAL"]:
        tag = TAGS[dtype]
        rows = values(3, 20, dtype=dtype).sort(1).values
        x = values(3, 90, dtype=dtype, seed=1)
        yield case(f"searchsorted {tag}", torch.searchsorted, rows, x, reference="same")
        yield case(f"bucketize {tag}", lambda x, r: torch.bucketize(x, r, right=True), x, rows[0], reference="same")


def grid_sampler(x: torch.Tensor, grid: torch.Tensor, g: torch.Tensor, mode: int) -> tuple[torch.Tensor, ...]:
    """Return the result and both gradients, using reflection padding."""
    dims = x.dim() - 2
    forward, backward = getattr(aten, f"grid_sampler_{dims}d"), getattr(aten, f"grid_sampler_{dims}d_backward")
    return forward(x, grid, mode, 2, False), *backward(g, x, grid, mode, 2, False, [True, True])


def grids() -> Iterator[Case]:
    """Generate grids with coordinates that are exact in every dtype."""
    for dtype in FLOAT:
        for dims, mode in ((2, 0), (2, 1), (2, 2), (3, 0), (3, 1)):
            x = integers(2, 5, *(3, 4, 8)[-dims:], dtype=dtype)
            steps = integers(2, *(2, 3, 13)[-dims:], dims, dtype=torch.float32, low=-10, high=10, seed=2)
            grid = (steps / 8 + 1 / 64).to(dtype)
            g = integers(2, 5, *(2, 3, 13)[-dims:], dtype=dtype, seed=1)
            yield case(f"grid_sampler_{dims}d {mode} {TAGS[dtype]}", grid_sampler, x, grid, g, mode)


def shuffled() -> Iterator[Case]:
    """Generate pixel shuffles with elements of every size."""
    for dtype in (torch.int8, torch.float16, torch.float32, torch.int64):
        for factor in (2, 3):
            x = values(2, 2 * factor**2, 3, 40, dtype=dtype)
            yield case(f"pixel_shuffle {factor} {TAGS[dtype]}", F.pixel_shuffle, x, factor, reference="same")
            y = values(2, 3, 2 * factor, 40 * factor, dtype=dtype)
            yield case(f"pixel_unshuffle {factor} {TAGS[dtype]}", F.pixel_unshuffle, y, factor, reference="same")


def cases() -> Iterator[Case]:
    yield from resampled()
    yield from shuffled()
    yield from grids()
    yield from searched()
