"""group_norm: layouts, mixed dtypes, gradients."""

from __future__ import annotations

import copy
import itertools
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from layouts import on_device
from tables import FLOAT
from threads import at_thread_counts

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

aten = torch.ops.aten

# (dtype of the input, dtype of the parameters and statistics)
TYPES = [(t, t) for t in FLOAT] + [(torch.float16, torch.float32), (torch.bfloat16, torch.float32)]
LAYOUTS = {
    "contiguous": lambda: torch.randn(4, 6, 9, 11),
    "channels_last": lambda: torch.randn(4, 6, 9, 11).to(memory_format=torch.channels_last),
    "channels_last_wide": lambda: torch.randn(2, 270, 5, 7).to(memory_format=torch.channels_last),
    "channels_last_3d": lambda: torch.randn(3, 6, 4, 3, 6).to(memory_format=torch.channels_last_3d),
    "channels_last_slice": lambda: torch.randn(4, 6, 9, 11).to(memory_format=torch.channels_last)[:, :, 1:5],
    "channels_last_long": lambda: torch.randn(3, 12, 50, 61).to(memory_format=torch.channels_last),
    "large_groups": lambda: torch.randn(2, 6, 90, 71),
    "rows": lambda: torch.randn(31, 48),
    "sequence": lambda: torch.randn(6, 12, 33),
    "transposed": lambda: torch.randn(4, 6, 11, 9).transpose(2, 3),
    "slice": lambda: torch.randn(5, 9, 9, 12)[1:, 1:7, :, 2:11],
    "expanded": lambda: torch.randn(4, 6, 1, 11).expand(4, 6, 9, 11),
}
# Error bounds: half an ULP for rounding the result, plus a few float32 ULPs for the arithmetic.
BOUND = {torch.float32: 2e-6, torch.float16: 6e-4, torch.bfloat16: 5e-3}


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest error divided by the largest exact value."""
    return float((result.cpu().double() - exact).abs().max() / exact.abs().max().clamp(min=1e-30))


def sizes(x: torch.Tensor, groups: int) -> tuple[int, int, int, int]:
    return x.shape[0], x.shape[1], x[0, 0].numel(), groups


def parameters(channels: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return (torch.rand(channels) + 0.5).to(dtype), torch.randn(channels).to(dtype)


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_forward(layout: str, groups: int) -> None:
    for dtype, kind in TYPES:
        x = (LAYOUTS[layout]() * 2 + 1).to(dtype)
        weight, bias = parameters(x.shape[1], kind)
        exact = F.group_norm(x.double(), groups, weight.double(), bias.double())
        expected = F.group_norm(x, groups, weight, bias)
        with mpsx.profiler.launch_log() as log:
            result = F.group_norm(on_device(x), groups, weight.to("mpsx"), bias.to("mpsx"))
        assert any(name.startswith("kernel:group_norm") for name in log)
        assert result.dtype == expected.dtype and result.stride() == expected.stride()
        assert error(result, exact) < BOUND[dtype]
        if dtype == torch.float32:
            torch.testing.assert_close(result.cpu(), expected)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "channels_last_wide", "rows", "large_groups"])
def test_statistics(layout: str) -> None:
    for dtype, kind in TYPES:
        x = (LAYOUTS[layout]() * 2 + 1).to(dtype)
        weight, bias = parameters(x.shape[1], kind)
        exact = aten.native_group_norm(x.double(), weight.double(), bias.double(), *sizes(x, 3), 1e-5)
        expected = aten.native_group_norm(x, weight, bias, *sizes(x, 3), 1e-5)
        result = aten.native_group_norm(on_device(x), weight.to("mpsx"), bias.to("mpsx"), *sizes(x, 3), 1e-5)
        for r, e, d in zip(result[1:], expected[1:], exact[1:], strict=True):
            assert r.dtype == e.dtype and r.shape == e.shape
            assert error(r, d) < BOUND[kind]


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_backward(layout: str, groups: int) -> None:
    for dtype, kind in TYPES:
        x = (LAYOUTS[layout]() * 2 + 1).to(dtype)
        weight, _ = parameters(x.shape[1], kind)
        grad = torch.randn(x.shape).to(dtype)
        dense = x.contiguous()
        saved = aten.native_group_norm(dense, weight, weight, *sizes(x, groups), 1e-5)[1:]
        exact = aten.native_group_norm_backward(
            grad.double(),
            dense.double(),
            *(t.double() for t in (*saved, weight)),
            *sizes(x, groups),
            [True] * 3,
        )
        result = aten.native_group_norm_backward(
            grad.to("mpsx"),
            on_device(x),
            *(t.to("mpsx") for t in (*saved, weight)),
            *sizes(x, groups),
            [True] * 3,
        )
        for r, d, type_ in zip(result, exact, (dtype, kind, kind), strict=True):
            assert r.dtype == type_ and r.shape == d.shape
            assert error(r, d) < BOUND[type_]


@pytest.mark.parametrize("mask", list(itertools.product([True, False], repeat=3)))
def test_output_mask(mask: tuple[bool, ...]) -> None:
    x, grad = torch.randn(3, 4, 5), torch.randn(3, 4, 5)
    weight, bias = parameters(4, torch.float32)
    saved = aten.native_group_norm(x, weight, bias, *sizes(x, 2), 1e-5)[1:]
    values = (grad, x, *saved, weight)
    expected = aten.native_group_norm_backward(*values, *sizes(x, 2), mask)
    result = aten.native_group_norm_backward(*(t.to("mpsx") for t in values), *sizes(x, 2), mask)
    for wanted, r, e in zip(mask, result, expected, strict=True):
        assert (r is not None) == wanted
        if wanted:
            torch.testing.assert_close(r.cpu(), e)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("format_", [torch.contiguous_format, torch.channels_last])
def test_module_trains_like_cpu(affine: bool, format_: torch.memory_format) -> None:
    a = torch.nn.GroupNorm(4, 12, affine=affine)
    b = copy.deepcopy(a).to("mpsx")
    x = torch.randn(3, 12, 7, 5).to(memory_format=format_)
    weight = torch.randn(x.shape)
    xs = [x.clone().requires_grad_(), x.to("mpsx").requires_grad_()]
    outs = [a(xs[0]), b(xs[1])]
    torch.testing.assert_close(outs[1].cpu(), outs[0])
    for out, t in zip(outs, xs, strict=True):
        out.backward(weight.to(t.device))
    assert xs[1].grad.stride() == xs[0].grad.stride()
    torch.testing.assert_close(xs[1].grad.cpu(), xs[0].grad)
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(q.grad.cpu(), p.grad)


@pytest.mark.parametrize("absent", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("shape", [(4, 6, 5), (4, 6)])
def test_optional_arguments(absent: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    given = [None if i in absent else t for i, t in enumerate(parameters(6, torch.float32))]
    expected = F.group_norm(x, 2, *given)
    result = F.group_norm(x.to("mpsx"), 2, *(None if t is None else t.to("mpsx") for t in given))
    torch.testing.assert_close(result.cpu(), expected)


def test_mean_far_from_zero() -> None:
    """The mean is so large that computing the variance as a difference of squares would give a wrong result."""
    for x in (torch.randn(2, 6, 80, 90) + 3000, torch.randn(500, 72) + 3000):
        exact = aten.native_group_norm(x.double(), None, None, *sizes(x, 3), 1e-5)
        for t in (x, x.to(memory_format=torch.channels_last) if x.dim() == 4 else x):
            result = aten.native_group_norm(t.to("mpsx"), None, None, *sizes(x, 3), 1e-5)
            assert error(result[1], exact[1]) < 2e-7
            assert error(result[2], exact[2]) < 2e-6


def test_gradient_of_single_elements_is_zero() -> None:
    x = torch.randn(2, 6, device="mpsx", requires_grad=True)
    (gradient,) = torch.autograd.grad(F.group_norm(x, 6), x, torch.rand(2, 6).to("mpsx") + 0.5)
    assert not gradient.any()


def test_results_do_not_depend_on_threads() -> None:
    def results(x: torch.Tensor) -> list[torch.Tensor]:
        y, mean, rstd = aten.native_group_norm(x, None, None, *sizes(x, 4), 1e-5)
        grads = aten.native_group_norm_backward(y, x, mean, rstd, None, *sizes(x, 4), [True] * 3)
        return [r.cpu() for r in (y, mean, rstd, *grads)]

    for format_ in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(4, 24, 40, 40).to(memory_format=format_).to("mpsx")
        seen = at_thread_counts(partial(results, x), (1, 2, 5))
        for other in seen[1:]:
            assert all(torch.equal(p, q) for p, q in zip(seen[0], other, strict=True))


@pytest.mark.parametrize("shape", [(0, 6, 5), (2, 6, 0), (2, 0, 5)])
def test_empty(shape: tuple[int, ...]) -> None:
    if shape[0] and torch.__version__ >= "2.14":
        pytest.skip("since 2.14, PyTorch rejects samples without elements")
    x = torch.zeros(shape)
    weight = torch.ones(shape[1])
    size = (shape[0], shape[1], shape[2], 3)
    expected = aten.native_group_norm(x, weight, weight, *size, 1e-5)
    result = aten.native_group_norm(*(t.to("mpsx") for t in (x, weight, weight)), *size, 1e-5)
    for r, e in zip(result, expected, strict=True):
        torch.testing.assert_close(r.cpu(), e, equal_nan=True)
    values = (x, x, torch.zeros(shape[0], 3), torch.zeros(shape[0], 3), weight)
    expected = aten.native_group_norm_backward(*values, *size, [True] * 3)
    result = aten.native_group_norm_backward(*(t.to("mpsx") for t in values), *size, [True] * 3)
    for r, e in zip(result, expected, strict=True):
        torch.testing.assert_close(r.cpu(), e)


def test_errors_name_the_argument() -> None:
    x = torch.randn(4, 6, 5, device="mpsx")
    half = torch.ones(6, device="mpsx", dtype=torch.half)
    five = torch.ones(5, device="mpsx")
    with pytest.raises(RuntimeError, match="expected weight of type Float with an input of type Float, got Half"):
        aten.native_group_norm(x, half, None, 4, 6, 5, 3, 1e-5)
    with pytest.raises(RuntimeError, match="expected bias of 6 elements, got 5"):
        aten.native_group_norm(x, None, five, 4, 6, 5, 3, 1e-5)
    with pytest.raises(RuntimeError, match="expected weight on mpsx:0, got cpu"):
        aten.native_group_norm(x, torch.ones(6), None, 4, 6, 5, 3, 1e-5)
    with pytest.raises(RuntimeError, match="expected a number of groups that divides 6 channels, got 4"):
        aten.native_group_norm(x, None, None, 4, 6, 5, 4, 1e-5)
    with pytest.raises(RuntimeError, match="expected an input of 4x6x4 elements"):
        aten.native_group_norm(x, None, None, 4, 6, 4, 3, 1e-5)
    messages = []
    for device in ("cpu", "mpsx"):
        with pytest.raises(RuntimeError) as caught:
            F.group_norm(torch.zeros(4, 6, 5, device=device), 4)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    mean = torch.zeros(4, 3, device="mpsx")
    with pytest.raises(RuntimeError, match="expected a gradient of shape"):
        aten.native_group_norm_backward(x[:2], x, mean, mean, None, 4, 6, 5, 3, [True] * 3)
    with pytest.raises(RuntimeError, match="expected rstd of 12 elements, got 6"):
        aten.native_group_norm_backward(x, x, mean, mean[:2], None, 4, 6, 5, 3, [True] * 3)


def test_kernels_run() -> None:
    x = torch.randn(2, 4, 6, 6).to("mpsx")
    layer = torch.nn.GroupNorm(2, 4).to("mpsx")
    with mpsx.profiler.launch_log() as log:
        layer(x.requires_grad_()).backward(torch.ones_like(x))
    kernels = ("group_norm_f32_f32", "group_norm_bwd_sums_f32_f32", "group_norm_bwd_finish_f32",
               "batch_norm_bwd_input_f32", "group_norm_bwd_params_f32")  # fmt: skip
    for kernel in kernels:
        assert f"kernel:{kernel}" in log


def test_kernels_run_on_long_groups() -> None:
    """Groups that do not fit into a threadgroup's registers are read in chunks."""
    x = torch.randn(2, 4, 150, 151)
    with mpsx.profiler.launch_log() as log:
        y = F.group_norm(x.to("mpsx"), 1)
    assert log == ["kernel:batch_norm_stats_f32", "kernel:group_norm_finish_f32", "kernel:batch_norm_scale_f32"]
    torch.testing.assert_close(y.cpu(), F.group_norm(x, 1))


def test_kernels_run_on_channels_last() -> None:
    """Kernels do not copy channels-last inputs. The operators are called directly, because autograd makes the input
    contiguous."""
    x = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last).to("mpsx")
    with mpsx.profiler.launch_log() as log:
        y, mean, rstd = aten.native_group_norm(x, None, None, *sizes(x, 2), 1e-5)
        aten.native_group_norm_backward(y, x, mean, rstd, None, *sizes(x, 2), [True] * 3)
    assert log == [
        "kernel:batch_norm_stats_last_f32",
        "kernel:group_norm_finish_f32",
        "kernel:batch_norm_scale_last_f32",
        "kernel:batch_norm_bwd_sums_last_f32_f32",
        "kernel:group_norm_bwd_finish_f32",
        "kernel:batch_norm_bwd_input_last_f32",
        "kernel:group_norm_bwd_params_f32",
    ]
