"""Compare the forward and backward convolution kernels with float64 and the CPU."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_as_accurate
from layouts import on_device
from tables import FLOAT

pytestmark = pytest.mark.usefixtures("only_kernels")

CASES = [  # (transposed, batch, in channels, out channels, size, kernel, stride, padding, dilation, groups)
    (False, 2, 3, 5, [9], [3], [2], [1], [1], 1),
    (False, 2, 4, 6, [17], [5], [1], [4], [2], 2),
    (False, 2, 3, 70, [14, 15], [3, 3], [1, 1], [1, 1], [1, 1], 1),
    (False, 3, 20, 8, [9, 8], [1, 1], [1, 1], [0, 0], [1, 1], 1),
    (False, 2, 6, 4, [12, 9], [3, 2], [2, 3], [2, 1], [2, 1], 2),
    (False, 2, 8, 8, [11, 20], [3, 5], [1, 1], [1, 2], [1, 1], 8),
    (False, 2, 4, 8, [11, 20], [3, 3], [2, 2], [1, 1], [1, 1], 4),
    (False, 1, 10, 10, [9, 9], [4, 4], [4, 4], [0, 0], [1, 1], 2),
    (False, 1, 3, 4, [5, 6, 7], [3, 2, 3], [1, 2, 1], [1, 0, 1], [1, 1, 2], 1),
    (False, 2, 130, 6, [5, 4], [3, 3], [2, 1], [1, 1], [1, 1], 1),  # large K, which uses split-K
    (False, 2, 1040, 12, [5, 4], [1, 1], [1, 1], [0, 0], [1, 1], 2),
    (True, 2, 3, 5, [9], [3], [2], [1], [1], 1),
    (True, 2, 6, 4, [7, 6], [3, 3], [2, 2], [1, 1], [1, 1], 2),
    (True, 2, 4, 4, [7, 6], [3, 2], [1, 3], [0, 1], [2, 1], 4),
    (True, 1, 3, 4, [3, 4, 5], [2, 3, 3], [2, 1, 2], [0, 1, 1], [1, 1, 1], 1),
]


LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def check(case: tuple, dtype: torch.dtype, layout: str = "contiguous", bias: bool = True) -> None:
    """Compare the result and the gradients of the input, the weight and the bias."""
    transposed, batch, in_channels, out_channels, size, kernel, stride, padding, dilation, groups = case
    weight_size = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
    x = torch.randn(batch, in_channels, *size).to(dtype)
    last = LAST[len(size)] if layout == "channels_last" else torch.contiguous_format
    if layout == "channels_last":
        x = x.contiguous(memory_format=last)
    if layout == "slice":
        strided = (..., *(slice(1, None, 2) for _ in size))
        x = torch.randn(batch, in_channels, *(2 * n for n in size)).to(dtype)[strided]
    w, b = torch.randn(*weight_size, *kernel).to(dtype), torch.randn(out_channels).to(dtype) if bias else None
    if layout == "channels_last":
        w = w.contiguous(memory_format=last)
    extra = [s - 1 if transposed else 0 for s in stride]
    results = []
    for move in (on_device, torch.Tensor.clone, torch.Tensor.double):
        leaves = [move(t).detach().requires_grad_() for t in (x, w, b) if t is not None]
        y = torch.convolution(*leaves, *[None] * (b is None), stride, padding, dilation, transposed, extra, groups)
        g = torch.Generator().manual_seed(1)
        grad = torch.randn(y.shape, generator=g).to(dtype).to(y.dtype)
        if layout == "channels_last":
            grad = grad.contiguous(memory_format=last)
        results.append([y.detach(), *torch.autograd.grad(y, leaves, on_device(grad) if move is on_device else grad)])
    for got, cpu, exact in zip(*results, strict=True):
        assert_as_accurate(got, cpu, exact)
    if layout == "channels_last":
        assert all(t.is_contiguous(memory_format=last) for t in results[0][:2])  # result, input gradient


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(case: tuple) -> None:
    for dtype in FLOAT:
        check(case, dtype)
    check(case, torch.float32, "slice", bias=False)
    for dtype in FLOAT if len(case[4]) in LAST else ():
        check(case, dtype, "channels_last")


def test_empty_batch() -> None:
    x, w = torch.randn(0, 3, 5, 5, device="mpsx"), torch.randn(4, 3, 3, 3, device="mpsx", requires_grad=True)
    y = F.conv2d(x, w)
    assert y.shape == (0, 4, 3, 3)
    y.sum().backward()
    assert not w.grad.any()


def test_errors() -> None:
    x = torch.randn(1, 3, 5, 5, device="mpsx")
    with pytest.raises(RuntimeError, match=r"expected input.* to have 4 channels"):
        F.conv2d(x, torch.randn(2, 4, 3, 3, device="mpsx"))
    with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        F.conv2d(x, torch.randn(2, 3, 7, 7, device="mpsx"))


@pytest.mark.sweep
def test_random_convolutions() -> None:
    n = random.Random(0)
    for _ in range(200):
        dims, groups, transposed = n.randint(1, 3), n.choice([1, 1, 2, 3, 8]), n.random() < 0.3
        limit = {1: 60, 2: 16, 3: 7}[dims]
        kernel, stride = [n.randint(1, 4) for _ in range(dims)], [n.randint(1, 3) for _ in range(dims)]
        dilation, padding = [n.randint(1, 2) for _ in range(dims)], [n.randint(0, 2) for _ in range(dims)]
        size = [n.randint((k - 1) * d + 1, limit + 6) for k, d in zip(kernel, dilation, strict=True)]
        if transposed:
            padding = [min(p, (k - 1) * d // 2) for p, k, d in zip(padding, kernel, dilation, strict=True)]
        check((transposed, n.randint(1, 3), groups * n.randint(1, 12), groups * n.randint(1, 12), size, kernel, stride,
               padding, dilation, groups), n.choice(FLOAT),
              n.choice(["contiguous", "slice", *["channels_last"] * (dims in LAST)]))  # fmt: skip
