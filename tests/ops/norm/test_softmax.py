"""softmax, log_softmax and their gradients: values, dimensions, layouts, dtypes, accuracy, errors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from layouts import LAYOUTS, make, on_device
from tables import FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

FUNCTIONS = {"softmax": torch.softmax, "log_softmax": torch.log_softmax}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name: str, layout: str) -> None:
    for dtype in FLOAT:
        x, weight = make(layout, dtype, low=-9, high=9), make(layout, dtype, seed=3)
        for dim in range(-1, max(x.dim(), 1)):
            leaf = on_device(x).detach().requires_grad_()
            result = FUNCTIONS[name](leaf, dim)
            assert result.stride() == FUNCTIONS[name](x, dim).stride()
            # Compare with float64, because for half inputs the CPU computes partly in half, but mpsx in float32.
            torch.testing.assert_close(result.detach().cpu(), FUNCTIONS[name](x.double(), dim).to(dtype))
            result.backward(on_device(weight))
            y, dy = result.detach().cpu().double(), weight.double()
            if name == "softmax":
                exact = y * (dy - (y * dy).sum(dim, keepdim=True))
            else:
                exact = dy - y.exp() * dy.sum(dim, keepdim=True)
            torch.testing.assert_close(leaf.grad.cpu(), exact.to(dtype))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_against_cpu(name: str) -> None:
    x, weight = make("contiguous", torch.float32), make("contiguous", torch.float32, seed=3)
    for dim in (0, 1, 2):
        a, b = x.clone().requires_grad_(), on_device(x).detach().requires_grad_()
        FUNCTIONS[name](a, dim).backward(weight)
        FUNCTIONS[name](b, dim).backward(on_device(weight))
        torch.testing.assert_close(b.grad.cpu(), a.grad)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(3, 100_003), (20_011, 5), (2, 1000, 700), (3, 40_000, 3), (4096, 64)])
def test_accuracy(name: str, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape) * 3
    exact = FUNCTIONS[name](x.double(), 1)
    result = FUNCTIONS[name](x.to("mpsx"), 1).cpu().double()
    if name == "softmax":
        assert ((result - exact).abs() / exact.abs().clamp_min(1e-30)).max() <= 3e-6
        assert (result.sum(1) - 1).abs().max() <= 3e-6
    else:
        assert (result - exact).abs().max() <= 3e-6


@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_to_float(name: str) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        x = make("slice", dtype)
        operator = getattr(torch.ops.aten, f"_{name}")
        backward = getattr(torch.ops.aten, f"_{name}_backward_data")
        for dim in (1, 2):
            result = operator(on_device(x), dim, True)
            expected = FUNCTIONS[name](x.float(), dim)
            assert result.dtype == torch.float32
            torch.testing.assert_close(result.cpu(), expected)
            grad = torch.randn(x.shape)
            gradient = backward(grad.to("mpsx"), result, dim, dtype)
            assert gradient.dtype == dtype
            torch.testing.assert_close(gradient.cpu(), backward(grad, expected, dim, torch.float32).to(dtype))
    with pytest.raises(RuntimeError, match="softmax: conversion to float"):
        torch.ops.aten._softmax(torch.rand(3, device="mpsx"), 0, True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str) -> None:
    infinity, nan = float("inf"), float("nan")
    x = torch.tensor([[0.0, -infinity, 1.0], [-infinity] * 3, [infinity, 0.0, 1.0], [nan, 0.0, 1.0], [1e30, -1e30, 0.0],
                      [88.0, -88.0, 1e-40]])  # fmt: skip
    for t, dim in ((x, 1), (x.t().contiguous(), 0)):
        expected, result = FUNCTIONS[name](t, dim), FUNCTIONS[name](t.to("mpsx"), dim)
        torch.testing.assert_close(result.cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_out(name: str) -> None:
    x = make("transposed", torch.float32)
    operator = getattr(torch.ops.aten, f"_{name}")
    for out in (torch.empty(0, device="mpsx"), torch.empty(9, 7, 5, device="mpsx").permute(2, 1, 0)):
        assert operator.out(on_device(x), 1, False, out=out) is out
        torch.testing.assert_close(out.cpu(), FUNCTIONS[name](x, 1))
    with pytest.raises(RuntimeError, match=f"{name}: expected out of type Float, got Half"):
        operator.out(on_device(x), 1, False, out=torch.empty(0, dtype=torch.float16, device="mpsx"))


@pytest.mark.parametrize("dtype", FLOAT)
def test_kernel_ran(dtype: torch.dtype) -> None:
    x = torch.rand(4, 5, 6).to(dtype).to("mpsx")
    tag = TAGS[dtype]
    with mpsx.profiler.launch_log() as log:
        torch.softmax(x, -1)
        torch.log_softmax(x, 1)
    assert list(log) == [f"kernel:softmax_rows_{tag}", f"kernel:log_softmax_columns_{tag}"]


def test_functional() -> None:
    x = make("contiguous", torch.float32)
    d = on_device(x)
    torch.testing.assert_close(F.softmax(d, 1, dtype=torch.float32).cpu(), F.softmax(x, 1, dtype=torch.float32))
    torch.testing.assert_close(F.softmin(d, 2).cpu(), F.softmin(x, 2))


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="softmax: expected a floating-point input, got Long"):
        torch.ops.aten._softmax(torch.ones(3, dtype=torch.int64, device="mpsx"), 0, False)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.softmax(torch.ones(3, device="mpsx"), 1)
