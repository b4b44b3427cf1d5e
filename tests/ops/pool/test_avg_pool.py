"""avg_pool2d, adaptive_avg_pool2d, their gradients, and operators that call them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from error_messages import error_messages
from layouts import on_device
from tables import FLOAT

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

# (kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
WINDOWS = [
    (2, 2, 0, False, True, None),
    (3, 2, 1, False, True, None),
    (3, 2, 1, True, False, None),
    (3, 1, 1, True, True, 5),
    ((2, 5), (3, 2), (1, 2), True, True, None),
    ((5, 2), None, (2, 0), True, False, None),
    (2, 4, 1, True, True, None),
]
SIZES = [(1, 1), (2, 3), (7, 5), (13, 70), (20, 90), (None, 4), 3]
LAYOUTS = ("contiguous", "channels_last", "transposed", "slice", "step", "expanded", "unbatched", "empty")


def inputs(layout: str, dtype: torch.dtype) -> torch.Tensor:
    values = torch.randn(2, 7, 13, 70).to(dtype)
    if layout == "channels_last":
        return values.to(memory_format=torch.channels_last)
    if layout == "transposed":
        return values.transpose(2, 3)
    if layout == "slice":
        return values[:, 1:6, 2:, 3:33]
    if layout == "step":
        return values[..., ::2]
    if layout == "expanded":
        return values[:1].expand(3, 7, 13, 70)
    if layout == "unbatched":
        return values[1]
    if layout == "empty":
        return values[:0]
    return values


def check(function, x: torch.Tensor) -> None:
    """Compare values, strides and gradients with the CPU's float32 results, because mpsx accumulates half precision in
    float32."""
    a, b = x.float().clone().requires_grad_(), on_device(x).detach().requires_grad_()
    expected, result = function(a), function(b)
    assert result.shape == expected.shape and result.dtype == x.dtype
    assert result.is_contiguous(memory_format=torch.channels_last) == expected.is_contiguous(
        memory_format=torch.channels_last
    ) or x.dim() == 3
    torch.testing.assert_close(result.cpu(), expected.to(x.dtype))
    weight = torch.randn(expected.shape).to(x.dtype)
    expected.backward(weight.float())
    result.backward(weight.to("mpsx"))
    torch.testing.assert_close(b.grad.cpu(), a.grad.to(x.dtype))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_avg_pool2d(layout: str, window: tuple) -> None:
    for dtype in FLOAT:
        check(lambda t: F.avg_pool2d(t, *window), inputs(layout, dtype))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_adaptive_avg_pool2d(layout: str, size: tuple) -> None:
    for dtype in FLOAT:
        if size == (1, 1):
            # In this case, PyTorch calls mean(), so only compare values.
            x = inputs(layout, dtype)
            expected = x.float().mean((-2, -1), keepdim=True).to(dtype)
            torch.testing.assert_close(torch.ops.aten._adaptive_avg_pool2d(on_device(x), [1, 1]).cpu(), expected)
        else:
            check(lambda t: F.adaptive_avg_pool2d(t, size), inputs(layout, dtype))


@pytest.mark.parametrize("options", [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (2, 3), "padding": (1, 0), "count_include_pad": False, "ceil_mode": True},
    {"kernel_size": (3, 2), "stride": (1, 5), "ceil_mode": True, "divisor_override": 5},
])  # fmt: skip
def test_integers(options: dict) -> None:
    x = torch.randint(-50, 50, (2, 3, 11, 9))
    for t in (x, x[0], x.contiguous(memory_format=torch.channels_last)):
        got, want = F.avg_pool2d(t.to("mpsx"), **options), F.avg_pool2d(t, **options)
        assert torch.equal(got.cpu(), want)
        assert got.stride() == want.stride()
    assert torch.equal(F.avg_pool1d(x[0].to("mpsx"), 3, 2, 1).cpu(), F.avg_pool1d(x[0], 3, 2, 1))
    wide = torch.randint(-50, 50, (2, 3, 5, 6, 7))
    assert torch.equal(F.avg_pool3d(wide.to("mpsx"), 3, 2, 1).cpu(), F.avg_pool3d(wide, 3, 2, 1))


def test_one_dimension() -> None:
    x = torch.randn(3, 5, 31)
    torch.testing.assert_close(F.avg_pool1d(x.to("mpsx"), 3, 2, 1).cpu(), F.avg_pool1d(x, 3, 2, 1))
    torch.testing.assert_close(F.adaptive_avg_pool1d(x.to("mpsx"), 7).cpu(), F.adaptive_avg_pool1d(x, 7))


def test_out() -> None:
    x = torch.randn(2, 3, 8, 8)
    expected = F.avg_pool2d(x, 2)
    for shape in ((2, 3, 4, 4), (0,)):
        out = torch.empty(shape, device="mpsx")
        torch.ops.aten.avg_pool2d.out(x.to("mpsx"), [2, 2], out=out)
        torch.testing.assert_close(out.cpu(), expected)
        torch.ops.aten.adaptive_avg_pool2d.out(x.to("mpsx"), [4, 4], out=out)
        torch.testing.assert_close(out.cpu(), expected)


def test_error_messages_match_the_cpu() -> None:
    calls = (
        lambda x: F.avg_pool2d(x, 2, 2, 2),
        lambda x: F.avg_pool2d(x, 2, divisor_override=0),
        lambda x: F.avg_pool2d(x, 20),
        lambda x: F.avg_pool2d(x[0, 0], 2),
        lambda x: F.adaptive_avg_pool2d(x[..., :0], 2),
    )
    for call in calls:
        cpu, device = error_messages(lambda d, call=call: call(torch.zeros(2, 3, 8, 8, device=d)))
        assert device == cpu


def test_kernels_run() -> None:
    x = torch.randn(1, 4, 6, 6).to("mpsx")
    with mpsx.profiler.launch_log() as log:
        for t in (x, x.to(memory_format=torch.channels_last)):
            for function in (lambda t: F.avg_pool2d(t, 2), lambda t: F.adaptive_avg_pool2d(t, 4)):
                pooled = function(t.detach().requires_grad_())
                pooled.backward(pooled.detach())
    for kernel in ("avg_pool", "avg_pool_last", "adaptive_avg_pool", "adaptive_avg_pool_last", "resample_planes_f32"):
        assert f"kernel:{kernel}_f32" in log
