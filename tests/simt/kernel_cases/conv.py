"""Convolutions and their gradients: implicit GEMM, col2im and direct kernels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from tables import FLOAT, TAGS

from kernel_cases import Case, case, values


def convolution(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, g: torch.Tensor, transposed: bool, groups: int
) -> tuple[torch.Tensor, ...]:
    """Return the output and the gradients."""
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    y = torch.convolution(*leaves, [2, 1], [1, 1], [1, 2], transposed, [0, 0], groups)
    return y, *torch.autograd.grad(y, leaves, g[..., : y.shape[2], : y.shape[3]])


def many_channels(
    x: torch.Tensor, weight: torch.Tensor, g: torch.Tensor, stride: int = 1,
    layout: torch.memory_format = torch.contiguous_format, groups: int = 1,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Return the output and the gradients, for shapes that use 128 x 128 tiles or split-K."""
    leaves = [t.detach().contiguous(memory_format=layout).requires_grad_() for t in (x, weight)]
    y = torch.nn.functional.conv2d(*leaves, stride=stride, padding=weight.shape[-1] // 2 // stride, groups=groups)
    return y, *torch.autograd.grad(y, leaves, g.contiguous(memory_format=layout))


def cases() -> Iterator[Case]:
    for outputs in range(1, 5):
        x = values(1, 2, 5, 20, low=-0.5, high=0.5)
        weight = values(2, outputs, 3, 3, low=-0.5, high=0.5, seed=1)
        g, bias = values(1, outputs, 20, 40, seed=2), values(outputs, seed=3)
        yield case(f"transposed convolution to {outputs} channels", convolution, x, weight, bias, g, True, 1)
    for dtype in FLOAT:
        for groups, channels in ((1, 10), (10, 10)):
            for transposed in (False, True):
                x = values(2, channels, 9, 11, dtype=dtype, low=-0.5, high=0.5)
                weight = values(10, channels // groups, 3, 3, dtype=dtype, low=-0.5, high=0.5, seed=1)
                g = values(2, 10, 20, 20, dtype=dtype, low=-0.5, high=0.5, seed=2)
                label = f"{'transposed ' if transposed else ''}convolution of {groups} groups {TAGS[dtype]}"
                bias = values(10, dtype=dtype, seed=3)
                yield case(label, convolution, x, weight, bias, g, transposed, groups)
        x = values(1, 8, 23, 24, dtype=dtype, low=-0.5, high=0.5)
        g = values(1, 128, 23, 24, dtype=dtype, low=-0.1, high=0.1, seed=1)
        deep = values(1, 520, 5, 4, dtype=dtype, low=-0.1, high=0.1)
        small = values(1, 9, 5, 4, dtype=dtype, low=-0.1, high=0.1, seed=1)
        for taps, layout in itertools.product((1, 3), (torch.contiguous_format, torch.channels_last)):
            label = f"kernel {taps} {layout} {TAGS[dtype]}"
            weight = values(128, 8, taps, taps, dtype=dtype, low=-0.5, high=0.5, seed=2)
            yield case(f"convolution with 128 x 128 tiles {label}", many_channels, x, weight, g, 1, layout)
            weight = values(9, 520, taps, taps, dtype=dtype, low=-0.1, high=0.1, seed=2)
            yield case(f"convolution with split-K {label}", many_channels, deep, weight, small, 1, layout)
    for dtype in (torch.float16, torch.bfloat16):
        for taps, images, side, out in ((1, 1, 8, 8), (2, 4, 25, 12)):  # the stride equals the kernel size
            x = values(images, 128, side, side, dtype=dtype, low=-0.5, high=0.5)
            weight = values(128, 128, taps, taps, dtype=dtype, low=-0.1, high=0.1, seed=2)
            g = values(images, 128, out, out, dtype=dtype, low=-0.1, high=0.1, seed=1)
            label = f"gradients with 128 x 128 tiles, kernel {taps}, {TAGS[dtype]}"
            yield case(label, many_channels, x, weight, g, taps)
        x = values(2, 16, 12, 12, dtype=dtype, low=-0.5, high=0.5)
        weight, bias = (values(*shape, dtype=dtype, low=-0.5, high=0.5, seed=3) for shape in ((16, 6, 3, 3), (12,)))
        g = values(2, 12, 40, 40, dtype=dtype, low=-0.1, high=0.1, seed=1)
        yield case(f"tensor tier: transposed convolution {TAGS[dtype]}", convolution, x, weight, bias, g, True, 2)
    yield from tensor_cases()


def along_rows(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, g: torch.Tensor,
    layout: torch.memory_format = torch.contiguous_format,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Return the output and the gradients of a convolution along rows."""
    leaves = [x.contiguous(memory_format=layout), weight.contiguous(memory_format=layout), bias]
    leaves = [t.detach().requires_grad_() for t in leaves]
    y = torch.nn.functional.conv2d(*leaves, padding=(0, 1))
    return y, *torch.autograd.grad(y, leaves, g.contiguous(memory_format=layout))


def tensor_cases() -> Iterator[Case]:
    """Generate cases for the tensor tier's GEMMs. With one core, the tile depends only on the shape."""
    for dtype in FLOAT:
        # The weight gradients of 64 and 78 channels are 128 x 192 and, padded, 128 x 240. Six channels are not vectors.
        for pixels, out, channels in ((128, 256, 8), (256, 128, 8), (128, 128, 8), (128, 64, 8), (64, 128, 8),
                                      (64, 128, 64), (64, 128, 78), (64, 128, 6)):  # fmt: skip
            x = values(1, channels, 1, pixels, dtype=dtype, low=-0.5, high=0.5)
            weight = values(out, channels, 1, 3, dtype=dtype, low=-0.5, high=0.5, seed=2)
            bias = values(out, dtype=dtype, seed=3)
            g = values(1, out, 1, pixels, dtype=dtype, low=-0.1, high=0.1, seed=1)
            label = f"tensor tier: convolution, tile {pixels}x{out}, {channels} channels {TAGS[dtype]}"
            yield case(label, along_rows, x, weight, bias, g)
        # In place: the tiles of the forward pass, those of the input gradient, and those of the weight gradient.
        for pixels, out, channels, taps in ((128, 256, 8, 3), (256, 128, 8, 3), (128, 128, 8, 3), (128, 64, 8, 3),
                                            (64, 128, 8, 3), (128, 8, 256, 3), (256, 8, 128, 3), (128, 8, 128, 3),
                                            (128, 8, 64, 3), (64, 8, 128, 3), (64, 128, 128, 2), (64, 128, 64, 2),
                                            (64, 64, 64, 2)):  # fmt: skip
            x = values(1, channels, 1, pixels, dtype=dtype, low=-0.5, high=0.5)
            weight = values(out, channels, 1, taps, dtype=dtype, low=-0.5, high=0.5, seed=2)
            bias = values(out, dtype=dtype, seed=3)
            g = values(1, out, 1, pixels + 3 - taps, dtype=dtype, low=-0.1, high=0.1, seed=1)
            label = f"tensor tier: convolution in place, {channels}x{pixels}x{out}x{taps} {TAGS[dtype]}"
            yield case(label, along_rows, x, weight, bias, g, torch.channels_last)
        x = values(2, 16, 12, 12, dtype=dtype, low=-0.5, high=0.5)
        for taps, layout in itertools.product((1, 3), (torch.contiguous_format, torch.channels_last)):
            weight = values(12, 8, taps, taps, dtype=dtype, low=-0.5, high=0.5, seed=2)
            g = values(2, 12, 12, 12, dtype=dtype, low=-0.1, high=0.1, seed=1)
            label = f"tensor tier: convolution of 2 groups, kernel {taps}, {layout} {TAGS[dtype]}"
            yield case(label, many_channels, x, weight, g, 1, layout, 2)
        x = values(2, 8, 3, 16, dtype=dtype, low=-0.5, high=0.5)
        weight, bias = values(16, 8, 1, 3, dtype=dtype, low=-0.5, high=0.5, seed=2), values(16, dtype=dtype, seed=3)
        g = values(2, 16, 3, 16, dtype=dtype, low=-0.1, high=0.1, seed=1)
        label = f"tensor tier: convolution along rows, channels last {TAGS[dtype]}"
        yield case(label, along_rows, x, weight, bias, g, torch.channels_last)
        forms = itertools.product((1, 3), (torch.contiguous_format, torch.channels_last), (8,))
        for taps, layout, width in (*forms, *((3, torch.contiguous_format, width) for width in (7, 10))):
            x = values(2, 8, 6, width, dtype=dtype, low=-0.5, high=0.5)
            weight = values(12, 8, taps, taps, dtype=dtype, low=-0.5, high=0.5, seed=2)
            g = values(2, 12, 6, width, dtype=dtype, low=-0.1, high=0.1, seed=1)
            label = f"tensor tier: convolution, kernel {taps}, width {width}, {layout} {TAGS[dtype]}"
            yield case(label, many_channels, x, weight, g, 1, layout)
