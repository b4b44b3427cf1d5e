"""Elementwise losses of an input and a target."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from deferred_errors import raises_after_sync
from layouts import LAYOUTS, make, on_device
from tables import FLOAT
from threads import at_thread_counts

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

LOSSES = {
    "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss,
    "smooth_l1_wide": lambda x, t, reduction: F.smooth_l1_loss(x, t, beta=2.5, reduction=reduction),
    "smooth_l1_zero": lambda x, t, reduction: F.smooth_l1_loss(x, t, beta=0.0, reduction=reduction),
    "huber": lambda x, t, reduction: F.huber_loss(x, t, delta=0.7, reduction=reduction),
    "binary_cross_entropy": F.binary_cross_entropy,
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients(name: str, layout: str, reduction: str) -> None:
    function = LOSSES[name]
    low, high = (0.02, 0.98) if name == "binary_cross_entropy" else (-3, 3)
    for dtype in FLOAT:
        x = make(layout, dtype, low=low, high=high)
        target = make(layout, dtype, seed=1, low=low, high=high)
        # Use float32 inputs with the same values for the reference, because the CPU rounds intermediate results to
        # half.
        a, b = x.float().clone().requires_grad_(), on_device(x).detach().requires_grad_()
        expected = function(a, target.float(), reduction=reduction)
        result = function(b, on_device(target), reduction=reduction)
        assert result.dtype == dtype and result.shape == expected.shape
        torch.testing.assert_close(result.cpu(), expected.to(dtype), equal_nan=True)
        weight = torch.randn(expected.shape).to(dtype)
        expected.backward(weight.float())
        result.backward(weight.to("mpsx"))
        torch.testing.assert_close(b.grad.cpu(), a.grad.to(dtype))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_weighted_binary_cross_entropy(reduction: str) -> None:
    x, target, weight = torch.rand(9, 4), torch.rand(9, 4), torch.rand(4)
    x[0, :2] = torch.tensor([0.0, 1.0])  # PyTorch clamps the logarithms
    x[1, :2] = torch.tensor([1e-8, 1e-6])
    a, b = x.clone().requires_grad_(), x.to("mpsx").requires_grad_()
    expected = F.binary_cross_entropy(a, target, weight, reduction=reduction)
    result = F.binary_cross_entropy(b, target.to("mpsx"), weight.to("mpsx"), reduction=reduction)
    torch.testing.assert_close(result.cpu(), expected)
    expected.backward(torch.ones_like(expected))
    result.backward(torch.ones_like(result))
    torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_broadcasting() -> None:
    x, target = torch.randn(4, 1, 5), torch.randn(3, 1)
    for reduction in range(3):
        expected = torch.ops.aten.mse_loss(x, target, reduction)
        torch.testing.assert_close(torch.ops.aten.mse_loss(x.to("mpsx"), target.to("mpsx"), reduction).cpu(), expected)


def test_accuracy_of_large_sums() -> None:
    x, target = torch.rand(3_000_001), torch.rand(3_000_001)
    exact = F.mse_loss(x.double(), target.double()).item()
    results = at_thread_counts(lambda: F.mse_loss(x.to("mpsx"), target.to("mpsx")).item())
    assert results[0] == results[1] == results[2]
    assert abs(results[0] - exact) < 2e-7 * exact


def test_out() -> None:
    x, target = torch.randn(3, 4), torch.randn(3, 4)
    expected = F.mse_loss(x, target, reduction="none")
    for out in (torch.empty(3, 4), torch.empty(0), torch.empty(4, 3).t()):
        result = on_device(out)
        torch.ops.aten.mse_loss.out(x.to("mpsx"), target.to("mpsx"), 0, out=result)
        torch.testing.assert_close(result.cpu(), expected)


def test_errors_match_the_cpu() -> None:
    calls = (
        lambda x: F.smooth_l1_loss(x, x, beta=-1.0),
        lambda x: F.huber_loss(x, x, delta=0.0),
        lambda x: torch.ops.aten.mse_loss(x, x[:, :2]),
    )
    for call in calls:
        messages = []
        for device in ("cpu", "mpsx"):
            with pytest.raises(RuntimeError) as caught:
                call(torch.zeros(3, 4, device=device))
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


@pytest.mark.parametrize("bad", [-0.25, 1.5, float("nan")])
@pytest.mark.parametrize("dtype", FLOAT)
def test_binary_cross_entropy_errors(dtype: torch.dtype, bad: float) -> None:
    good = torch.rand(3, 9000).to(dtype)
    wrong = good.clone()
    wrong[2, 8990] = bad
    for reduction in ("none", "mean"):
        with raises_after_sync(RuntimeError, match="all elements of input should be between 0 and 1"):
            F.binary_cross_entropy(wrong.to("mpsx"), good.to("mpsx"), reduction=reduction)
        with raises_after_sync(RuntimeError, match="all elements of target should be between 0 and 1"):
            F.binary_cross_entropy(good.to("mpsx"), wrong.to("mpsx"), reduction=reduction)
        F.binary_cross_entropy(good.to("mpsx"), good.to("mpsx"), reduction=reduction)  # the error must not persist


def test_kernels_run() -> None:
    x = torch.rand(5, 3).to("mpsx").requires_grad_()
    with mpsx.profiler.launch_log() as log:
        F.mse_loss(x, x.detach()).backward()
        F.huber_loss(x, x.detach(), reduction="none")
    for kernel in ("mse_loss_sum_f32", "loss_total_f32", "mse_loss_bwd_reduced_f32", "huber_loss_f32"):
        assert f"kernel:{kernel}" in log
