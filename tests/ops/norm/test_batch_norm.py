"""batch_norm and its callers: training and evaluation, layouts, mixed dtypes, gradients, running statistics."""

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
    "contiguous": lambda: torch.randn(4, 7, 9, 11),
    "channels_last": lambda: torch.randn(4, 7, 9, 11).to(memory_format=torch.channels_last),
    "channels_last_wide": lambda: torch.randn(2, 300, 5, 7).to(memory_format=torch.channels_last),
    "channels_last_3d": lambda: torch.randn(3, 5, 4, 3, 6).to(memory_format=torch.channels_last_3d),
    "channels_last_slice": lambda: torch.randn(4, 7, 9, 11).to(memory_format=torch.channels_last)[:, :, 1:5],
    "long_planes": lambda: torch.randn(2, 3, 130, 141),
    "one_channel": lambda: torch.randn(3, 1, 40, 7),
    "rows": lambda: torch.randn(131, 5),
    "wide_rows": lambda: torch.randn(37, 270),
    "sequence": lambda: torch.randn(6, 10, 33),
    "transposed": lambda: torch.randn(4, 7, 11, 9).transpose(2, 3),
    "swapped": lambda: torch.randn(9, 4, 7).transpose(0, 1),
    "slice": lambda: torch.randn(5, 9, 9, 12)[1:, 1:8, :, 2:11],
    "step": lambda: torch.randn(4, 7, 9, 22)[..., ::2],
    "expanded": lambda: torch.randn(4, 7, 1, 11).expand(4, 7, 9, 11),
}


def parameters(channels: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return weight, bias, running_mean and running_var."""
    return [
        (torch.rand(channels) + 0.5).to(dtype),
        torch.randn(channels).to(dtype),
        torch.randn(channels).to(dtype),
        (torch.rand(channels) + 0.5).to(dtype),
    ]


def to_device(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    return [None if t is None else t.to("mpsx") for t in tensors]


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest error divided by the largest exact value."""
    return float((result.cpu().double() - exact).abs().max() / exact.abs().max().clamp(min=1e-30))


# Error bounds: half an ULP for rounding the result, plus a few float32 ULPs for the arithmetic.
BOUND = {torch.float32: 2e-6, torch.float16: 6e-4, torch.bfloat16: 5e-3}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("train", [True, False])
def test_forward(layout: str, train: bool) -> None:
    for dtype, kind in TYPES:
        x = (LAYOUTS[layout]() * 2 + 1).to(dtype)
        weight, bias, mean, var = parameters(x.shape[1], kind)
        mean_d, var_d = to_device(mean, var)
        exact_mean, exact_var = mean.double(), var.double()
        exact = aten.native_batch_norm(
            x.double(), weight.double(), bias.double(), exact_mean, exact_var, train, 0.3, 1e-5
        )
        expected = aten.native_batch_norm(x, weight, bias, mean, var, train, 0.3, 1e-5)
        result = aten.native_batch_norm(on_device(x), *to_device(weight, bias), mean_d, var_d, train, 0.3, 1e-5)
        for r, e in zip(result, expected, strict=True):
            assert r.dtype == e.dtype and r.shape == e.shape and r.stride() == e.stride()
        assert error(result[0], exact[0]) < BOUND[dtype]
        if train:
            for r, e in ((result[1], exact[1]), (result[2], exact[2]), (mean_d, exact_mean), (var_d, exact_var)):
                assert error(r, e) < BOUND[kind]
        else:
            assert torch.equal(mean_d.cpu(), mean) and torch.equal(var_d.cpu(), var)
        if dtype == torch.float32:
            torch.testing.assert_close(result[0].cpu(), expected[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("train", [True, False])
def test_backward(layout: str, train: bool) -> None:
    for dtype, kind in TYPES:
        x = (LAYOUTS[layout]() * 2 + 1).to(dtype)
        grad = torch.randn(x.shape).to(dtype)
        weight, _, mean, var = parameters(x.shape[1], kind)
        saved = aten.native_batch_norm(x, weight, None, mean, var, train, 0.1, 1e-5)[1:]
        values = (weight, mean, var, *saved)
        wide = (t.double() for t in values)
        exact = aten.native_batch_norm_backward(grad.double(), x.double(), *wide, train, 1e-5, [True] * 3)
        expected = aten.native_batch_norm_backward(grad, x, *values, train, 1e-5, [True] * 3)
        result = aten.native_batch_norm_backward(
            grad.to("mpsx"), on_device(x), *to_device(*values), train, 1e-5, [True] * 3
        )
        for r, e, d, type_ in zip(result, expected, exact, (dtype, kind, kind), strict=True):
            assert r.dtype == e.dtype and r.stride() == e.stride()
            assert error(r, d) < BOUND[type_]


@pytest.mark.parametrize("mask", list(itertools.product([True, False], repeat=3)))
def test_output_mask(mask: tuple[bool, ...]) -> None:
    x, grad = torch.randn(3, 4, 5), torch.randn(3, 4, 5)
    weight, _, mean, var = parameters(4, torch.float32)
    saved = aten.native_batch_norm(x, weight, None, mean, var, True, 0.1, 1e-5)[1:]
    expected = aten.native_batch_norm_backward(grad, x, weight, mean, var, *saved, True, 1e-5, mask)
    result = aten.native_batch_norm_backward(*to_device(grad, x, weight, mean, var, *saved), True, 1e-5, mask)
    for wanted, r, e in zip(mask, result, expected, strict=True):
        assert (r is not None) == wanted
        if wanted:
            torch.testing.assert_close(r.cpu(), e)


@pytest.mark.parametrize("absent", [(0,), (1,), (0, 1), (2, 3), (0, 1, 2, 3)])
def test_optional_arguments(absent: tuple[int, ...]) -> None:
    x = torch.randn(4, 6, 5)
    given = [None if i in absent else t for i, t in enumerate(parameters(6, torch.float32))]
    device = to_device(*given)
    expected = aten.native_batch_norm(x, *given, True, 0.1, 1e-5)
    result = aten.native_batch_norm(x.to("mpsx"), *device, True, 0.1, 1e-5)
    for r, e in zip((*result, *device), (*expected, *given), strict=True):
        if e is not None:
            torch.testing.assert_close(r.cpu(), e)


@pytest.mark.parametrize("module", [torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d])
@pytest.mark.parametrize("momentum", [0.1, None, 0.0, 1.0])
@pytest.mark.parametrize("track", [True, False])
def test_module_trains_like_cpu(module: type[torch.nn.Module], momentum: float | None, track: bool) -> None:
    rank = {torch.nn.BatchNorm1d: 1, torch.nn.BatchNorm2d: 2, torch.nn.BatchNorm3d: 3}[module]
    a = module(5, momentum=momentum, track_running_stats=track)
    b = copy.deepcopy(a).to("mpsx")
    for step in range(3):
        x = torch.randn(4, 5, *[6] * rank) + step
        xs = [x.clone().requires_grad_(), x.to("mpsx").requires_grad_()]
        weight = torch.randn(x.shape)
        outs = [a(xs[0]), b(xs[1])]
        torch.testing.assert_close(outs[1].cpu(), outs[0])
        for out, t in zip(outs, xs, strict=True):
            out.backward(weight.to(t.device))
        torch.testing.assert_close(xs[1].grad.cpu(), xs[0].grad)
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(q.grad.cpu(), p.grad)
    for p, q in zip(a.buffers(), b.buffers(), strict=True):
        torch.testing.assert_close(q.cpu(), p)
    if track:
        assert int(b.num_batches_tracked) == 3
    a.eval()
    b.eval()
    with torch.no_grad():
        torch.testing.assert_close(b(x.to("mpsx")).cpu(), a(x))


def test_gradient_in_evaluation() -> None:
    a = torch.nn.BatchNorm2d(4).eval()
    b = copy.deepcopy(a).to("mpsx")
    x, weight = torch.randn(2, 2, 4, 3, 3)
    xs = [x.clone().requires_grad_(), x.to("mpsx").requires_grad_()]
    for layer, t in ((a, xs[0]), (b, xs[1])):
        layer(t).backward(weight.to(t.device))
    torch.testing.assert_close(xs[1].grad.cpu(), xs[0].grad)
    torch.testing.assert_close(b.weight.grad.cpu(), a.weight.grad)
    torch.testing.assert_close(b.bias.grad.cpu(), a.bias.grad)


def test_instance_norm() -> None:
    x = torch.randn(3, 5, 6, 7)
    weight, bias, mean, var = parameters(5, torch.float32)
    mean_d, var_d = to_device(mean, var)
    for use_input in (True, False):
        expected = F.instance_norm(x, mean, var, weight, bias, use_input)
        # PyTorch calls mean() to average the statistics of the images. This may fall back to the CPU.
        with mpsx.fallback.using_mode("silent"), mpsx.profiler.launch_log() as log:
            result = F.instance_norm(x.to("mpsx"), mean_d, var_d, *to_device(weight, bias), use_input)
        assert "kernel:batch_norm_scale_f32" in log
        torch.testing.assert_close(result.cpu(), expected)
        torch.testing.assert_close(mean_d.cpu(), mean)
        torch.testing.assert_close(var_d.cpu(), var)


def test_mean_far_from_zero() -> None:
    """The mean is so large that computing the variance as a difference of squares would give a wrong result."""
    # In the second case, rounding the mean of a chunk to float32 causes an error of 4e-4 standard deviations.
    for x, bound in ((torch.randn(8, 3, 50, 50) + 3000, 2e-6), (torch.randn(500, 70) * 0.01 + 100, 5e-5)):
        exact = aten.native_batch_norm(x.double(), None, None, None, None, True, 0.1, 1e-5)
        for t in (x, x.to(memory_format=torch.channels_last) if x.dim() == 4 else x):
            result = aten.native_batch_norm(t.to("mpsx"), None, None, None, None, True, 0.1, 1e-5)
            assert error(result[1], exact[1]) < 2e-7
            assert error(result[2], exact[2]) < bound


def test_results_do_not_depend_on_threads() -> None:
    def results(x: torch.Tensor) -> list[torch.Tensor]:
        t = x.to("mpsx")
        y, mean, invstd = aten.native_batch_norm(t, None, None, None, None, True, 0.1, 1e-5)
        grads = aten.native_batch_norm_backward(y, t, None, None, None, mean, invstd, True, 1e-5, [True] * 3)
        return [r.cpu() for r in (y, mean, invstd, *grads)]

    for x in (torch.randn(8, 33, 40, 40), torch.randn(8, 33, 40, 40).to(memory_format=torch.channels_last)):
        seen = at_thread_counts(partial(results, x), (1, 2, 5))
        for other in seen[1:]:
            assert all(torch.equal(p, q) for p, q in zip(seen[0], other, strict=True))


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 3, 0, 4), (0, 3)])
def test_empty_batch(shape: tuple[int, ...]) -> None:
    a = torch.nn.BatchNorm2d(3) if len(shape) == 4 else torch.nn.BatchNorm1d(3)
    b = copy.deepcopy(a).to("mpsx")
    a.eval()
    b.eval()
    xs = [torch.zeros(shape, requires_grad=True), torch.zeros(shape, device="mpsx", requires_grad=True)]
    outs = [a(xs[0]), b(xs[1])]
    assert outs[1].shape == outs[0].shape
    # For an empty batch, PyTorch calls other operators. Their gradients use sums, which may fall back to the CPU.
    with mpsx.fallback.using_mode("silent"):
        for out in outs:
            out.backward(torch.ones_like(out))
    assert xs[1].grad.shape == xs[0].grad.shape
    torch.testing.assert_close(b.weight.grad.cpu(), a.weight.grad)
    result = aten.native_batch_norm(xs[1].detach(), None, None, None, None, True, 0.1, 1e-5)
    assert result[0].shape == shape and bool(result[1].cpu().isnan().all())


def test_no_channels() -> None:
    result = aten.native_batch_norm(torch.zeros(4, 0, 2, device="mpsx"), None, None, None, None, True, 0.1, 1e-5)
    assert [tuple(r.shape) for r in result] == [(4, 0, 2), (0,), (0,)]


def test_constant_channels() -> None:
    x = torch.ones(4, 3, 5, 5)
    for eps in (0.0, 1e-5):
        expected = aten.native_batch_norm(x, None, None, None, None, True, 0.1, eps)
        result = aten.native_batch_norm(x.to("mpsx"), None, None, None, None, True, 0.1, eps)
        for r, e in zip(result, expected, strict=True):
            torch.testing.assert_close(r.cpu(), e)


def test_strided_parameters() -> None:
    x = torch.randn(4, 6, 5)
    values = parameters(12, torch.float32)
    expected_stats = [t.clone()[::2] for t in values[2:]]
    weight, bias, mean, var = (on_device(t)[::2] for t in values)
    expected = aten.native_batch_norm(x, values[0][::2], values[1][::2], *expected_stats, True, 0.1, 1e-5)
    result = aten.native_batch_norm(x.to("mpsx"), weight, bias, mean, var, True, 0.1, 1e-5)
    torch.testing.assert_close(result[0].cpu(), expected[0])
    torch.testing.assert_close(mean.cpu(), expected_stats[0])
    torch.testing.assert_close(var.cpu(), expected_stats[1])


def test_alias_operators() -> None:
    x = torch.randn(4, 6, 5)
    given = parameters(6, torch.float32)

    def check(call, arguments: list[torch.Tensor], **more) -> None:
        device = to_device(*arguments)
        expected = call(*arguments, **more)
        result = call(*device, **more)
        for r, e in zip((*result, *device), (*expected, *arguments), strict=True):
            torch.testing.assert_close(r.cpu(), e)

    common = {"momentum": 0.1, "eps": 1e-5}
    fresh = lambda: [x.clone(), *(t.clone() for t in given)]  # noqa: E731
    for training in (True, False):
        check(aten._native_batch_norm_legit, fresh(), training=training, **common)
        check(aten._native_batch_norm_legit_functional, fresh(), training=training, **common)
    check(aten._native_batch_norm_legit.no_stats, fresh()[:3], training=True, **common)
    check(aten._native_batch_norm_legit_no_training, fresh(), **common)
    check(aten._batch_norm_with_update, fresh(), **common)
    check(aten._batch_norm_with_update_functional, fresh(), **common)
    check(aten._batch_norm_no_update, fresh(), **common)

    def into_new(*arguments: torch.Tensor, **more) -> tuple[torch.Tensor, ...]:
        names = ("out", "save_mean", "save_invstd", "reserve")
        outs = {name: torch.empty(0, device=arguments[0].device) for name in names}
        outs["reserve"] = outs["reserve"].byte()
        return aten._batch_norm_with_update.out(*arguments, **more, **outs)

    check(into_new, fresh(), **common)
    _, mean, invstd, reserve = aten._batch_norm_with_update(*fresh(), **common)
    arguments = [torch.randn(x.shape), x, given[0], given[2], given[3], mean, invstd]
    expected = aten.batch_norm_backward(*arguments, True, 1e-5, [True] * 3, reserve)
    result = aten.batch_norm_backward(*to_device(*arguments), True, 1e-5, [True] * 3, reserve.to("mpsx"))
    for r, e in zip(result, expected, strict=True):
        torch.testing.assert_close(r.cpu(), e)


def test_out() -> None:
    x = torch.randn(4, 6, 5)
    given = parameters(6, torch.float32)
    expected = aten.native_batch_norm(x, *(t.clone() for t in given), True, 0.1, 1e-5)
    calls = (
        (aten.native_batch_norm.out, given),
        (aten._native_batch_norm_legit.out, given),
        (aten._native_batch_norm_legit.no_stats_out, given[:2]),
    )
    for call, arguments in calls:
        for shape in ((4, 6, 5), (0,)):
            outs = [torch.empty(shape, device="mpsx"), *(torch.empty(0, device="mpsx") for _ in range(2))]
            names = dict(zip(("out", "save_mean", "save_invstd"), outs, strict=True))
            call(x.to("mpsx"), *to_device(*arguments), True, 0.1, 1e-5, **names)
            for r, e in zip(outs, expected, strict=True):
                torch.testing.assert_close(r.cpu(), e)


def test_errors_name_the_argument() -> None:
    x = torch.randn(4, 6, 5, device="mpsx")
    half = torch.ones(6, device="mpsx", dtype=torch.half)
    five = torch.ones(5, device="mpsx")
    with pytest.raises(RuntimeError, match="expected weight of type Float with an input of type Float, got Half"):
        aten.native_batch_norm(x, half, None, None, None, True, 0.1, 1e-5)
    with pytest.raises(RuntimeError, match="expected bias of 6 elements, got 5"):
        aten.native_batch_norm(x, None, five, None, None, True, 0.1, 1e-5)
    with pytest.raises(RuntimeError, match=r"Expected all tensors to be on the same device.*weight"):
        aten.native_batch_norm(x, torch.ones(6), None, None, None, True, 0.1, 1e-5)
    with pytest.raises(RuntimeError, match="expected an input of at least 2 dimensions, got 1"):
        aten.native_batch_norm(x[0, 0], None, None, None, None, True, 0.1, 1e-5)
    with pytest.raises(ValueError, match="must either both be None or neither be None"):
        aten.native_batch_norm(x, None, None, x[0, :, 0], None, True, 0.1, 1e-5)
    with pytest.raises(RuntimeError, match="expected running_mean and running_var when training=False"):
        aten.native_batch_norm(x, None, None, None, None, False, 0.1, 1e-5)
    mean = torch.zeros(6, device="mpsx")
    with pytest.raises(RuntimeError, match="expected a gradient of shape"):
        aten.native_batch_norm_backward(x[:2], x, None, None, None, mean, mean, True, 1e-5, [True] * 3)
    with pytest.raises(RuntimeError, match="expected save_mean and save_invstd when train=1"):
        aten.native_batch_norm_backward(x, x, None, None, None, None, None, True, 1e-5, [True] * 3)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        torch.nn.BatchNorm1d(6).to("mpsx")(x[:1, :, 0])


def test_kernels_run() -> None:
    x = torch.randn(2, 4, 6, 6).to("mpsx")
    layer = torch.nn.BatchNorm2d(4).to("mpsx")
    for suffix, t in (("", x), ("_last", x.to(memory_format=torch.channels_last))):
        with mpsx.profiler.launch_log() as log:
            layer(t.requires_grad_()).backward(torch.ones_like(t))
        for kernel in ("stats", "scale", "bwd_input"):
            assert f"kernel:batch_norm_{kernel}{suffix}_f32" in log
        assert f"kernel:batch_norm_bwd_sums{suffix}_f32_f32" in log
        assert "kernel:batch_norm_finish_f32" in log and "kernel:batch_norm_bwd_finish_f32" in log
