"""max_pool2d with indices, its gradient, and operators that call it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from error_messages import error_messages
from layouts import on_device
from tables import FLOAT, INT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

# (kernel, stride, padding, dilation, ceil_mode)
WINDOWS = [
    (2, 2, 0, 1, False),
    (3, 2, 1, 1, False),
    (3, 1, 1, 1, True),
    ((2, 3), (3, 1), (1, 0), (1, 2), False),
    (3, 3, 1, 2, True),
    (2, 4, 0, 1, False),  # leaves gaps between the windows
    ((5, 1), (1, 2), (2, 0), (2, 1), True),
    (3, None, 0, 1, True),
]


def inputs(layout: str, dtype: torch.dtype) -> torch.Tensor:
    """Return values with many ties, to check which of several equal maxima is selected."""
    values = torch.randint(-4 if dtype.is_signed else 0, 5, (2, 7, 13, 70)).to(dtype)
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


LAYOUTS = ("contiguous", "channels_last", "transposed", "slice", "step", "expanded", "unbatched", "empty")


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_and_indices(layout: str, window: tuple) -> None:
    kernel, stride, padding, dilation, ceil_mode = window
    for dtype in FLOAT + INT:
        x = inputs(layout, dtype)
        arguments = (kernel, stride, padding, dilation, ceil_mode)
        # The CPU's channels-last kernel rejects planes whose element indices overflow the integer dtype.
        reference = x if dtype.is_floating_point else x.contiguous()
        expected, expected_indices = F.max_pool2d(reference, *arguments, return_indices=True)
        result, indices = F.max_pool2d(on_device(x), *arguments, return_indices=True)
        assert result.device.type == indices.device.type == "mpsx"
        if dtype.is_floating_point:
            assert result.stride() == expected.stride()
        assert torch.equal(result.cpu(), expected)
        assert torch.equal(indices.cpu(), expected_indices)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient(layout: str, window: tuple) -> None:
    kernel, stride, padding, dilation, ceil_mode = window
    for dtype in FLOAT:
        x = inputs(layout, dtype)
        a, b = x.clone().requires_grad_(), on_device(x).clone().requires_grad_()
        expected = F.max_pool2d(a, kernel, stride, padding, dilation, ceil_mode)
        result = F.max_pool2d(b, kernel, stride, padding, dilation, ceil_mode)
        weight = torch.randint(-8, 9, expected.shape).to(dtype)  # sums of small integers are exact in every dtype
        expected.backward(weight)
        result.backward(weight.to("mpsx"))
        assert torch.equal(b.grad.cpu(), a.grad)


@pytest.mark.parametrize("window", [(2, 2, 0), (3, 2, 1), (2, 3, 0)], ids=str)
@pytest.mark.parametrize("channels", [8, 64, 77, 139])
def test_many_channels(channels: int, window: tuple[int, int, int]) -> None:
    """The channels-last kernels process blocks of 64 channels, blocks of 8 channels, and a remainder."""
    for dtype in FLOAT:
        x = torch.randint(-9, 9, (2, channels, 7, 6)).to(dtype).to(memory_format=torch.channels_last)
        x[0, ::5, 2, 3] = float("nan")
        a, b = x.clone().requires_grad_(), on_device(x).clone().requires_grad_()
        expected, expected_indices = F.max_pool2d(a, *window, return_indices=True)
        result, indices = F.max_pool2d(b, *window, return_indices=True)
        torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=0, atol=0, equal_nan=True)
        assert torch.equal(indices.cpu(), expected_indices)
        weight = torch.randint(-8, 9, expected.shape).to(dtype)
        expected.backward(weight)
        result.backward(weight.to("mpsx"))
        assert torch.equal(b.grad.cpu(), a.grad)


def test_gradient_of_wide_rows() -> None:
    x = torch.randint(-9, 9, (1, 2, 4, 5000)).float()
    a, b = x.clone().requires_grad_(), x.to("mpsx").requires_grad_()
    for t in (a, b):
        pooled = F.max_pool2d(t, (3, 5), (1, 2), (1, 2))
        pooled.backward(torch.ones_like(pooled))
    assert torch.equal(b.grad.cpu(), a.grad)


def test_nan_and_infinity() -> None:
    x = torch.randn(1, 3, 9, 40)
    x[0, 0, 4, 4] = x[0, 0, 4, 5] = float("nan")
    x[0, 1] = -float("inf")
    x[0, 2, 2, ::3] = float("inf")
    for format_ in (torch.contiguous_format, torch.channels_last):
        t = x.to(memory_format=format_)
        expected, expected_indices = F.max_pool2d(t, 3, 2, 1, return_indices=True)
        result, indices = F.max_pool2d(t.to("mpsx"), 3, 2, 1, return_indices=True)
        torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(indices.cpu(), expected_indices)


def test_one_dimension() -> None:
    x = torch.randn(3, 5, 31)
    a, b = x.clone().requires_grad_(), x.to("mpsx").requires_grad_()
    expected, result = F.max_pool1d(a, 3, 2, 1), F.max_pool1d(b, 3, 2, 1)
    assert torch.equal(result.cpu(), expected)
    expected.backward(torch.ones_like(expected))
    result.backward(torch.ones_like(result))
    assert torch.equal(b.grad.cpu(), a.grad)


def test_out() -> None:
    x = torch.randn(2, 3, 8, 8)
    expected = torch.ops.aten.max_pool2d_with_indices(x, [2, 2])
    for shape in ((2, 3, 4, 4), (0,)):
        out = torch.empty(shape, device="mpsx"), torch.empty(shape, dtype=torch.long, device="mpsx")
        torch.ops.aten.max_pool2d_with_indices.out(x.to("mpsx"), [2, 2], out=out[0], indices=out[1])
        assert torch.equal(out[0].cpu(), expected[0]) and torch.equal(out[1].cpu(), expected[1])
    strided = torch.empty(2, 3, 4, 8, device="mpsx")[..., ::2]
    torch.ops.aten.max_pool2d_with_indices.out(x.to("mpsx"), [2, 2], out=strided, indices=out[1])
    assert torch.equal(strided.cpu(), expected[0])
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        wrong = torch.empty(2, 3, 4, 4, dtype=torch.half, device="mpsx")
        torch.ops.aten.max_pool2d_with_indices.out(x.to("mpsx"), [2, 2], out=wrong, indices=out[1])


def test_error_messages_match_the_cpu() -> None:
    for shape, arguments in (((2, 3, 8, 8), (2, 2, 2)), ((3, 8), (2,)), ((2, 3, 2, 2), (5,))):
        cpu, device = error_messages(lambda d, s=shape, a=arguments: F.max_pool2d(torch.zeros(s, device=d), *a))
        assert device == cpu


def test_kernels_run() -> None:
    x = torch.randn(1, 4, 6, 6).to("mpsx")
    with mpsx.profiler.launch_log() as log:
        for t in (x, x.to(memory_format=torch.channels_last)):
            for stride in (2, 1):
                pooled = F.max_pool2d(t.requires_grad_(), 2, stride)
                pooled.backward(pooled.detach())
    kernels = (
        "max_pool2d",
        "max_pool2d_bwd",
        "max_pool2d_bwd_tiled",
        "max_pool2d_last",
        "max_pool2d_bwd_last",
        "max_pool2d_bwd_last_tiled",
    )
    for kernel in kernels:
        assert f"kernel:{kernel}_f32" in log


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("window", [(2,), (3, 1, 1), (5, 3, 2, 4), (2, 2, 0, 1, True), (2, 1, 1, 142)])
def test_max_pool1d_without_indices(dtype: torch.dtype, window: tuple) -> None:
    """If the input does not require grad, the kernel does not compute indices."""
    x = torch.randint(-9, 9, (3, 2, 141)).to(dtype)
    if dtype.is_floating_point:
        x[0, 0, 7] = x[1, 1, 140] = float("nan")
    expected = F.max_pool1d(x.float(), *window).to(dtype)
    with mpsx.profiler.launch_log() as log:
        result = F.max_pool1d(on_device(x), *window)
    assert f"kernel:max_pool1d_{TAGS[dtype]}" in log
    torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    strided = on_device(x.repeat_interleave(2, 2))[..., ::2]
    torch.testing.assert_close(F.max_pool1d(strided, *window).cpu(), expected, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(F.max_pool1d(on_device(x[0]), *window).cpu(), expected[0], equal_nan=True)


def test_max_pool1d_derivatives() -> None:
    """Differentiate max_pool1d in reverse mode, in forward mode, and under vmap."""
    values, tangent = torch.randn(2, 3, 20), torch.randn(2, 3, 20)
    found = []
    for device in ("cpu", "mpsx"):
        x = values.to(device).requires_grad_()
        result = F.max_pool1d(x, 3, 2)
        (grad,) = torch.autograd.grad(result, x, torch.ones_like(result))
        _, forward = torch.func.jvp(lambda t: F.max_pool1d(t, 3, 2), (x.detach(),), (tangent.to(device),))
        mapped = torch.vmap(lambda t: F.max_pool1d(t, 3, 2))(x.detach())
        with torch.no_grad():
            found.append([t.cpu() for t in (result, grad, forward, mapped, F.max_pool1d(x, 3, 2))])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


def test_max_pool1d_with_invalid_windows_raises() -> None:
    x = on_device(torch.ones(2, 5))
    for window, message in (((0,), "greater than zero"), ((3, 1, 2), "at most half"), ((9,), "Invalid computed")):
        with pytest.raises(RuntimeError, match=message):
            F.max_pool1d(x, *window)
