"""Contiguous and channels-last pooling, with gradients."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from tables import DTYPES, FLOAT, TAGS

from kernel_cases import Case, case, integers, values

aten = torch.ops.aten
FORMATS = {"planes": torch.contiguous_format, "channels last": torch.channels_last}
WINDOW = ([3, 2], [2, 2], [1, 1])


def max_pool(x: torch.Tensor, g: torch.Tensor, *shape: list[int]) -> tuple[torch.Tensor, ...]:
    """Return the maxima, their indices, and the gradient."""
    window = (*(shape or WINDOW), [1, 1], False)
    result, where = aten.max_pool2d_with_indices(x, *window)
    return result, where, aten.max_pool2d_with_indices_backward(g, x, *window, where)


def avg_pool(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the averages and the gradient."""
    window = (*WINDOW, False, True, None)
    return aten.avg_pool2d(x, *window), aten.avg_pool2d_backward(g, x, *window)


def adaptive_avg_pool(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the averages and the gradient."""
    return F.adaptive_avg_pool2d(x, (5, 3)), aten._adaptive_avg_pool2d_backward(g, x)


def max_pool3d(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Run max pooling with overlapping windows and padding."""
    return F.max_pool3d(x, (2, 3, 2), (1, 2, 1), (1, 1, 0), return_indices=True)


def max_pool3d_gradient(x: torch.Tensor, g: torch.Tensor, stride: tuple[int, int, int]) -> torch.Tensor:
    """Return the gradient. `stride` determines whether the windows overlap."""
    window = ((2, 3, 2), stride, (1, 1, 0), (1, 1, 1), False)
    _, indices = aten.max_pool3d_with_indices(x, *window)
    return aten.max_pool3d_with_indices_backward(g, x, *window, indices)


def fold(columns: torch.Tensor, stride: list[int]) -> torch.Tensor:
    """Sum the windows. `stride` determines whether they overlap or have gaps between them."""
    return aten.col2im(columns, [5, 67], [2, 3], [1, 2], [1, 1], stride)


def rows() -> Iterator[Case]:
    """Generate 1-D max pooling without indices."""
    for dtype in DTYPES["REAL"]:
        x = values(3, 140, dtype=dtype, low=-9, high=9)
        for window in ((2,), (5, 3, 2), (3, 1, 1, 4)):
            # PyTorch's CPU kernel supports only floating-point dtypes.
            yield case(f"max_pool1d {window} {TAGS[dtype]}", F.max_pool1d, x, *window,
                       reference="same" if dtype in FLOAT else "none")  # fmt: skip


def boxes() -> Iterator[Case]:
    """Generate 3-D average pooling: cubic windows, padding, ceil_mode, and adaptive windows of different sizes."""
    for dtype in FLOAT:
        x = values(2, 3, 4, 7, 39, dtype=dtype)
        for window in ((2,), ((3, 2, 3), (1, 2, 2), (1, 1, 1), True, False), (2, 3, 0, True, True, 5)):
            # Compare with float64, because PyTorch's CPU has no half-precision kernel.
            yield case(f"avg_pool3d {window} {TAGS[dtype]}", F.avg_pool3d, x, *window)
        yield case(f"adaptive_avg_pool3d {TAGS[dtype]}", F.adaptive_avg_pool3d, x, (3, 4, 17))


def whole_numbers() -> Iterator[Case]:
    """Generate integer average pooling and im2col."""
    x = values(2, 3, 9, 70, dtype=torch.int64, low=-99, high=99)
    yield case("avg_pool2d i64", F.avg_pool2d, x, 3, 2, 1, True, False, reference="same")
    yield case("avg_pool3d i64", F.avg_pool3d, x, (2, 3, 2), reference="same")
    for dtype in (torch.int8, torch.int64):
        yield case(f"im2col {TAGS[dtype]}", aten.im2col, x.to(dtype), [2, 3], [1, 1], [1, 2], [2, 1], reference="none")


def windows() -> Iterator[Case]:
    """Generate 3-D max pooling, im2col and col2im."""
    for dtype in DTYPES["REAL"]:
        x, g = values(2, 3, 4, 7, 9, dtype=dtype, low=-9, high=9), values(2, 3, 3, 3, 3, dtype=dtype, low=-9, seed=1)
        yield case(f"max_pool3d {TAGS[dtype]}", max_pool3d, x, reference="same")
        # PyTorch's CPU kernels do not support integer gradients.
        yield case(f"max_pool3d gradient {TAGS[dtype]}", max_pool3d_gradient, x, g, (2, 3, 3),
                   reference="same" if dtype in FLOAT else "none")  # fmt: skip
        if dtype in FLOAT:
            g = integers(2, 3, 5, 4, 8, dtype=dtype, seed=2)
            yield case(f"max_pool3d gradient, shared {TAGS[dtype]}", max_pool3d_gradient, x, g, (1, 2, 1),
                       reference="same")  # fmt: skip
    for dtype in FLOAT:
        for stride, count in (([1, 1], 6 * 65), ([2, 3], 3 * 22)):
            yield case(f"col2im {stride} {TAGS[dtype]}", fold, values(2, 12, count, dtype=dtype), stride)
        for stride in (1, 2):
            yield case(f"im2col {stride} {TAGS[dtype]}", F.unfold, values(2, 3, 9, 70, dtype=dtype), (2, 3), (2, 1),
                       (1, 2), stride, reference="same")  # fmt: skip
        for size, step in ((9, 2), (3, 5)):
            count = (140 - size) // step + 1
            g = values(2, count, size, dtype=dtype)
            yield case(f"unfold backward {size} {TAGS[dtype]}", aten.unfold_backward, g, [2, 140], 1, size, step)


def cases() -> Iterator[Case]:
    yield from windows()
    yield from rows()
    yield from whole_numbers()
    yield from boxes()
    for where, memory_format in FORMATS.items():
        for dtype in DTYPES["REAL"]:
            def image(height: int, width: int, seed: int, dtype: torch.dtype = dtype,
                      memory_format: torch.memory_format = memory_format) -> torch.Tensor:  # fmt: skip
                x = values(1, 11, height, width, dtype=dtype, low=-9, high=9, seed=seed)
                return x.to(memory_format=memory_format)

            x, g = image(13, 27, 0), image(7, 14, 1)
            # PyTorch's CPU kernels do not support integer gradients.
            yield case(f"max_pool2d of {where} {TAGS[dtype]}", max_pool, x, g,
                       reference="same" if dtype in FLOAT else "none")  # fmt: skip
            yield case(f"max_pool2d of tiles of {where} {TAGS[dtype]}", max_pool, x, image(6, 9, 3), [2, 3], [2, 3],
                       [0, 0], reference="same" if dtype in FLOAT else "none")  # fmt: skip
            if dtype in FLOAT:
                yield case(f"avg_pool2d of {where} {TAGS[dtype]}", avg_pool, x, g)
                yield case(f"adaptive_avg_pool2d of {where} {TAGS[dtype]}", adaptive_avg_pool, x, image(5, 3, 2))
