"""rms_norm and its gradients: values, layouts, dtypes, accuracy, errors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from layouts import LAYOUTS, make, on_device
from tables import FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "scalar"])
def test_values_and_gradients(layout: str, weighted: bool, eps: float | None) -> None:
    for dtype in FLOAT:
        x = make(layout, dtype)
        for dims in (1, 2):
            shape = tuple(x.shape[-dims:])
            w = (torch.rand(shape) + 0.5).to(dtype) if weighted else None
            grad = torch.randn(x.shape).to(dtype)
            groups = []
            for device in (True, False):
                leaf = (on_device(x) if device else x.double()).detach().requires_grad_()
                weight = None
                if w is not None:
                    weight = (w.to("mpsx") if device else w.double()).requires_grad_()
                given = eps if device or eps is not None else torch.finfo(torch.float32).eps
                y = F.rms_norm(leaf, shape, weight, given)
                y.backward(grad.to("mpsx") if device else grad.double())
                groups.append((y.detach(), leaf.grad, None if weight is None else weight.grad))
            for a, b in zip(*groups, strict=True):
                if a is not None:
                    assert a.dtype == dtype
                    torch.testing.assert_close(a.cpu(), b.to(dtype), atol=2e-5, rtol=torch.finfo(dtype).eps * 8)
            expected = F.rms_norm(x, shape, w, eps)
            torch.testing.assert_close(groups[0][0].cpu(), expected)


def test_default_eps() -> None:
    for dtype in FLOAT:
        x = (torch.randn(5, 8) * 1e-3).to(dtype)
        torch.testing.assert_close(F.rms_norm(x.to("mpsx"), (8,)).cpu(), F.rms_norm(x, (8,)))


@pytest.mark.parametrize("weighted", [False, True])
def test_double(weighted: bool) -> None:
    x, w = torch.randn(4, 5, 6, dtype=torch.float64), torch.rand(6, dtype=torch.float64) if weighted else None
    results = []
    for device in ("cpu", "mpsx"):
        leaf = x.detach().to(device).requires_grad_()
        weight = None if w is None else w.detach().to(device).requires_grad_()
        with mpsx.fallback.using_mode("silent"):  # float64 falls back to the CPU
            y = F.rms_norm(leaf, (6,), weight)
            y.sin().sum().backward()
        results.append([t.cpu() for t in (y.detach(), leaf.grad, *([] if weight is None else [weight.grad]))])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_input_with_float_weight(dtype: torch.dtype) -> None:
    x, w = torch.randn(33, 65).to(dtype), torch.rand(65)
    y, rstd = torch.ops.aten._fused_rms_norm(x.to("mpsx"), [65], w.to("mpsx"), 1e-5)
    assert (y.dtype, rstd.dtype, rstd.shape) == (dtype, torch.float32, (33, 1))
    torch.testing.assert_close(y.cpu(), F.rms_norm(x.double(), (65,), w.double(), 1e-5).to(dtype))


@pytest.mark.parametrize("shape", [(3, 100_003), (2000, 768), (3000, 768), (5003, 64), (70_001, 3)])
def test_accuracy(shape: tuple[int, int]) -> None:
    x, w, grad = torch.randn(shape), torch.rand(shape[1]) + 0.5, torch.randn(shape)
    exact = [t.double().requires_grad_() for t in (x, w)]
    ours = [t.to("mpsx").requires_grad_() for t in (x, w)]
    expected = F.rms_norm(exact[0], shape[1:], exact[1], 1e-6)
    result = F.rms_norm(ours[0], shape[1:], ours[1], 1e-6)
    torch.testing.assert_close(result.detach().cpu().double(), expected.detach(), atol=1e-6, rtol=1e-6)
    expected.backward(grad.double())
    result.backward(grad.to("mpsx"))
    for a, c in zip(ours, exact, strict=True):
        assert (a.grad.cpu().double() - c.grad).abs().max().item() <= 3e-6 * (1 + c.grad.abs().max().item())


@pytest.mark.parametrize("dtype", FLOAT)
def test_kernel_ran(dtype: torch.dtype) -> None:
    x, w = torch.rand(4, 6).to(dtype).to("mpsx").requires_grad_(), torch.rand(6).to(dtype).to("mpsx").requires_grad_()
    tag = TAGS[dtype]
    with mpsx.profiler.launch_log() as log:
        y = F.rms_norm(x, (6,), w)
    assert list(log) == [f"kernel:rms_norm_{tag}"]
    with mpsx.profiler.launch_log() as log:
        y.backward(y.detach())
    assert list(log)[:2] == [f"kernel:rms_norm_backward_{tag}", f"kernel:rms_norm_backward_weight_{tag}"]


def test_many_rows_use_the_fused_kernel() -> None:
    x, w = torch.rand(2100, 8).to("mpsx").requires_grad_(), torch.rand(8).to("mpsx").requires_grad_()
    y = F.rms_norm(x, (8,), w)
    with mpsx.profiler.launch_log() as log:
        y.backward(y.detach())
    assert list(log)[:2] == ["kernel:rms_norm_backward_fused_f32", "kernel:norm_merge_f32"]


def test_errors() -> None:
    x = torch.ones(3, 4, device="mpsx")
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.rms_norm(x, (5,))
    with pytest.raises(RuntimeError, match="rms_norm: expected weight of type Float"):
        torch.ops.aten._fused_rms_norm(x, [4], torch.ones(4, device="mpsx", dtype=torch.float16), 1e-5)
