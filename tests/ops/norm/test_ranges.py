"""Normalize values whose squares overflow or underflow in float32, and compare with float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("no_fallback")

SCALES = (1e-25, 1e-20, 1e19, 1e25, 1e30)
ROWS = ((3, 7), (5, 64), (2, 1000), (1, 40000))  # short; in registers, with and without a tail; too long for registers
FORMATS = (torch.contiguous_format, torch.channels_last)
PLANES = [(shape, FORMATS[0]) for shape in ((2, 8, 16), (2, 6, 9, 7), (1, 4, 64, 64), (5, 12))]
PLANES += [(shape, FORMATS[1]) for shape in ((2, 6, 9, 7), (1, 4, 64, 64))]


def results(f: Callable, x: torch.Tensor, *parameters: torch.Tensor) -> list[torch.Tensor]:
    """Return the output and all gradients as float64 CPU tensors."""
    leaves = [t.detach().requires_grad_() for t in (x, *parameters)]
    y = f(*leaves)
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y)
    return [t.detach().cpu().double() for t in (y, *torch.autograd.grad(y, leaves, cotangent))]


def compare(f: Callable, x: torch.Tensor, *parameters: torch.Tensor) -> None:
    result = results(f, x.to("mpsx"), *(t.to("mpsx") for t in parameters))
    exact = results(f, x.double(), *(t.double() for t in parameters))
    for r, e in zip(result, exact, strict=True):  # for large inputs, the gradients are tiny
        assert ((r - e).abs().max() / e.abs().max()).item() < 2e-5


def sample(shape: tuple[int, ...], scale: float, offset: float) -> torch.Tensor:
    torch.manual_seed(0)
    return (torch.randn(shape) + offset) * scale


@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("scale", SCALES)
def test_rows(shape: tuple[int, ...], scale: float) -> None:
    x, n = sample(shape, scale, 1.0), shape[-1:]
    w, b = torch.randn(n), torch.randn(n)
    compare(lambda x, w, b: F.layer_norm(x, n, w, b), x, w, b)
    compare(lambda x, w: F.rms_norm(x, n, w, 1e-5), x, w)


@pytest.mark.parametrize(("shape", "memory_format"), PLANES, ids=str)
@pytest.mark.parametrize("scale", SCALES)
def test_planes(shape: tuple[int, ...], memory_format: torch.memory_format, scale: float) -> None:
    x = sample(shape, scale, 1.0).contiguous(memory_format=memory_format)
    w, b = torch.randn(shape[1]), torch.randn(shape[1])
    compare(lambda x, w, b: F.group_norm(x, 2, w, b), x, w, b)
    compare(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b)
    if x.dim() > 2:
        compare(lambda x, w, b: F.instance_norm(x, None, None, w, b), x, w, b)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_infinite_value_makes_its_row_nan(value: float) -> None:
    x = torch.randn(3, 64)
    x[1, 5] = value
    for f in (lambda x: F.layer_norm(x, (64,)), lambda x: F.group_norm(x.view(1, 3, 64), 3).view(3, 64)):
        torch.testing.assert_close(f(x.to("mpsx")).cpu(), f(x), equal_nan=True)
