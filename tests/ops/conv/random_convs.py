"""Compare random convolutions with float64: `python random_convs.py SEED [COUNT]`.

Those without groups, or with more than four channels per group, use the tensor tier.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import torch
from layouts import on_device
from tables import FLOAT
from tensor_tier import main
from test_conv import LAST, check

from mpsx import _runtime


def check_infinity(case: tuple, dtype: torch.dtype, position: int) -> None:
    """An infinity in the tensor that windows slide over makes the same results infinite as on the CPU, and none NaN."""
    transposed, images, channels, out_channels, size, kernel, stride, padding, dilation, groups = case
    shape = (channels, out_channels // groups) if transposed else (out_channels, channels // groups)
    x, w = torch.ones(images, channels, *size, dtype=dtype), torch.rand(*shape, *kernel).to(dtype) + 0.5
    geometry = (stride, padding, dilation, transposed, [0] * len(size), groups)
    g = torch.ones_like(torch.convolution(x, w, None, *geometry))

    def with_infinity(t: torch.Tensor) -> torch.Tensor:
        t = t.clone()
        t.view(-1)[position % t.numel()] = torch.inf
        return t

    def results(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor, move: Callable) -> list[torch.Tensor]:
        backward = torch.ops.aten.convolution_backward
        large_x, large_g = move(with_infinity(x)), move(with_infinity(g))
        x, w, g = move(x), move(w), move(g)
        return [torch.convolution(large_x, w, None, *geometry),
                backward(large_g, x, w, None, *geometry, [True, False, False])[0],
                backward(large_g if transposed else g, x if transposed else large_x, w, None, *geometry,
                         [False, True, False])[1]]  # fmt: skip

    for got, exact in zip(results(x, w, g, on_device), results(x, w, g, torch.Tensor.double), strict=True):
        assert torch.equal(got.isinf().cpu(), exact.isinf())
        assert not got.isnan().any()


def random_layout(case: tuple, choice: random.Random) -> str:
    """Return a random layout of a convolution's tensors."""
    _, _, channels, out_channels, size, *_ = case
    layouts = ["contiguous", "slice"]
    if len(size) in LAST and min(channels, out_channels) > 1:  # with one channel, both formats have the same strides
        layouts.append("channels_last")
    return choice.choice(layouts)


def check_in_layout(case: tuple, dtype: torch.dtype, layout: str, choice: random.Random) -> str:
    """Check a convolution and its gradients, with and without infinities. Return a description."""
    bias = choice.random() < 0.5
    text = f"{case} {dtype} {layout} bias={bias}"
    try:
        check(case, dtype, layout, bias)
        check_infinity(case, dtype, choice.choice([0, -1, choice.randrange(1 << 20)]))
    except Exception as error:
        raise AssertionError(text) from error
    return text


def prefer_random_tiles(choice: random.Random) -> None:
    """Make some tile sizes of GEMMs look a hundred times slower, because small convolutions use only small tiles."""
    speeds = [name for name in _runtime.tuning("") if re.fullmatch(r"(conv|matmul)_\d+x\d+_(16bit|f32)", name)]
    assert speeds
    _runtime.set_tuning({name: choice.choice([0.01, 1]) for name in speeds})


def compare(choice: random.Random) -> str:
    """Check a random convolution and its gradients. Return a description of the convolution."""
    dims = choice.choice([1, 2, 2, 2, 3])
    limit, transposed = {1: 40, 2: 10, 3: 5}[dims], choice.random() < 0.3
    kernel = [choice.choice([1, 2, 3, 3, 5]) for _ in range(dims)] if choice.random() < 0.8 else [1] * dims
    _runtime.set_tuning({})
    if dims < 3 and max(kernel) < 4 and choice.random() < 0.5:  # empty tiles of large GEMMs take minutes on simt
        prefer_random_tiles(choice)
    stride = [choice.choice([1, 1, 2, 3]) for _ in range(dims)] if choice.random() < 0.5 else [1] * dims
    dilation = [choice.choice([1, 2]) for _ in range(dims)] if choice.random() < 0.3 else [1] * dims
    padding = [choice.randrange(k + 1) for k in kernel]
    size = [choice.randint((k - 1) * d + 1, limit + 6) for k, d in zip(kernel, dilation, strict=True)]
    if choice.random() < 0.3:
        size[-1] = choice.choice([8, 16])  # rows consist of whole vectors
    size = [max(n, (k - 1) * d + 1) for n, k, d in zip(size, kernel, dilation, strict=True)]
    if transposed:
        padding = [min(p, (k - 1) * d // 2) for p, k, d in zip(padding, kernel, dilation, strict=True)]
    groups = choice.choice([1, 1, 1, 1, 2, 3, 4, 6])
    if groups > 1 and choice.random() < 0.6:  # GEMMs of one or several groups
        channels, out_channels = groups * choice.choice([2, 8, 12, 40]), groups * choice.choice([5, 8, 16])
    elif groups > 1:  # direct kernels
        channels, out_channels = groups * choice.choice([1, 1, 2, 4]), groups * choice.choice([1, 1, 2, 3])
    else:
        channels = choice.choice([1, 3, 8, 16, 20, 20 if dims == 3 else 64])
        out_channels = choice.choice([1, 5, 16, 24, 24 if dims == 3 else 70])
    case = (transposed, choice.randint(1, 3), channels, out_channels, size, kernel, stride, padding, dilation, groups)
    return check_in_layout(case, choice.choice(FLOAT), random_layout(case, choice), choice)


if __name__ == "__main__":
    main(compare, ["conv_gemm_tensor_"], 12)
