"""nll_loss, nll_loss2d and cross_entropy."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from deferred_errors import raises_after_sync
from error_messages import error_messages
from tables import FLOAT
from threads import at_thread_counts

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

SHAPES = [(6,), (10, 6), (1, 6), (5000, 7), (3, 6, 9), (2, 6, 5, 7), (0, 6), (2, 3, 4, 2, 5)]


def problem(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log-probabilities, class weights, and targets, some of which equal the ignored index -100."""
    class_dim = 0 if len(shape) == 1 else 1
    x = torch.randn(shape).log_softmax(class_dim).to(dtype)
    target = torch.randint(0, shape[class_dim], shape[:class_dim] + shape[class_dim + 1 :])
    target = torch.where(torch.rand(target.shape) < 0.1, -100, target)
    return x, target, torch.rand(shape[class_dim]).add(0.25).to(dtype)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(shape: tuple[int, ...], reduction: str) -> None:
    for dtype in FLOAT:
        x, target, weights = problem(shape, dtype)
        for weight in (None, weights):
            for ignore_index in (-100, 1):
                t = target if ignore_index == -100 else target.clamp(min=0)
                arguments = {"ignore_index": ignore_index, "reduction": reduction}
                # Use float32 inputs with the same values for the reference, because the CPU accumulates in the dtype of
                # the input.
                a, b = x.float().clone().requires_grad_(), x.to("mpsx").requires_grad_()
                expected = F.nll_loss(a, t, weight if weight is None else weight.float(), **arguments)
                result = F.nll_loss(b, t.to("mpsx"), weight if weight is None else weight.to("mpsx"), **arguments)
                assert result.dtype == dtype
                torch.testing.assert_close(result.cpu(), expected.to(dtype), equal_nan=True)
                gradient = torch.randn(expected.shape)
                expected.backward(gradient.to(dtype).float())
                result.backward(gradient.to(dtype).to("mpsx"))
                torch.testing.assert_close(b.grad.cpu(), a.grad.to(dtype), equal_nan=True)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("shape", [(6,), (10, 6), (0, 6), (2, 6, 5, 7)], ids=str)
def test_total_weight(shape: tuple[int, ...], reduction: int) -> None:
    x, target, weight = problem(shape, torch.float32)
    op = torch.ops.aten.nll_loss2d_forward if len(shape) == 4 else torch.ops.aten.nll_loss_forward
    expected = op(x, target, weight, reduction, -100)
    result = op(x.to("mpsx"), target.to("mpsx"), weight.to("mpsx"), reduction, -100)
    for r, e in zip(result, expected, strict=True):
        torch.testing.assert_close(r.cpu(), e, equal_nan=True)


def test_all_ignored_is_nan() -> None:
    x = torch.randn(4, 3).log_softmax(1).to("mpsx")
    target = torch.full((4,), -100, device="mpsx")
    assert F.nll_loss(x, target).isnan().item()
    assert F.nll_loss(x, target, reduction="sum").item() == 0


def test_layouts() -> None:
    x = torch.randn(7, 40).log_softmax(0)
    target = torch.randint(0, 7, (80,))[::2]
    device_target = torch.empty(80, dtype=torch.long, device="mpsx")[::2].copy_(target)
    torch.testing.assert_close(F.nll_loss(x.to("mpsx").t(), device_target).cpu(), F.nll_loss(x.t(), target))
    image = torch.randn(2, 5, 6, 7).log_softmax(1).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 5, (2, 6, 7))
    # On the CPU, the gradient requires a contiguous input.
    a, b = image.contiguous().requires_grad_(), image.to("mpsx").requires_grad_()
    F.nll_loss(a, labels).backward()
    F.nll_loss(b, labels.to("mpsx")).backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_byte_targets() -> None:
    x = torch.randn(5, 4).log_softmax(1)
    target = torch.tensor([0, 3, 2, 1, 1], dtype=torch.uint8)
    torch.testing.assert_close(F.nll_loss(x.to("mpsx"), target.to("mpsx")).cpu(), F.nll_loss(x, target))


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("bad", [4, -1])
def test_out_of_range(bad: int, reduction: str) -> None:
    x = torch.randn(3, 4).to("mpsx")
    target = torch.tensor([0, bad, 2], device="mpsx")
    with raises_after_sync(IndexError, match=f"nll_loss: index {bad} is out of bounds for dimension 1 with size 4"):
        F.nll_loss(x, target, reduction=reduction)


def test_errors_match_the_cpu() -> None:
    for shape, target in (
        ((3, 4), torch.zeros(2, dtype=torch.long)),
        ((3, 4), torch.zeros(3, dtype=torch.int32)),
        ((2, 3, 4, 5), torch.zeros(2, 4, 4, dtype=torch.long)),
        ((2, 3, 4, 5), torch.zeros(2, 4, dtype=torch.long)),
    ):
        cpu, device = error_messages(lambda d, s=shape, t=target: F.nll_loss(torch.zeros(s, device=d), t.to(d)))
        if target.dtype == torch.int32 and torch.__version__ < "2.13":  # before 2.13, the message is different
            cpu = "expected target dtype to be Long or Byte, but got Int"
        assert cpu == device


def test_sums_do_not_depend_on_threads() -> None:
    x = torch.randn(200_000, 3).log_softmax(1).to("mpsx")
    target = torch.randint(0, 3, (200_000,)).to("mpsx")
    losses = at_thread_counts(lambda: F.nll_loss(x, target).item())
    assert losses[0] == losses[1] == losses[2]
    exact = F.nll_loss(x.cpu().double(), target.cpu()).item()
    assert abs(losses[0] - exact) < 2e-7 * abs(exact)


def test_kernels_run() -> None:
    x = torch.randn(5000, 4).to("mpsx").requires_grad_()
    with mpsx.profiler.launch_log() as log:
        F.nll_loss(x, torch.zeros(5000, dtype=torch.long, device="mpsx")).backward()
        F.nll_loss(x, torch.zeros(5000, dtype=torch.long, device="mpsx"), reduction="none")
    for kernel in ("nll_loss_sums_f32", "nll_loss_finish_f32", "nll_loss_bwd_f32", "nll_loss_f32"):
        assert f"kernel:{kernel}" in log
