"""layer_norm and its gradients: values, layouts, dtypes, accuracy, errors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from layouts import LAYOUTS, make, on_device
from tables import FLOAT, TAGS
from threads import at_thread_counts

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


def parameters(shape: tuple[int, ...], dtype: torch.dtype, which: str) -> list[torch.Tensor | None]:
    weight, bias = (torch.rand(shape) + 0.5).to(dtype), torch.randn(shape).to(dtype)
    return [weight if "w" in which else None, bias if "b" in which else None]


def leaves(tensors: list[torch.Tensor | None], *, device: bool) -> list[torch.Tensor | None]:
    return [
        None if t is None else (on_device(t) if device else t).detach().clone().requires_grad_() for t in tensors
    ]  # fmt: skip


@pytest.mark.parametrize("which", ["", "w", "b", "wb"])
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "scalar"])
def test_values_and_gradients(layout: str, which: str) -> None:
    for dtype in FLOAT:
        x = make(layout, dtype)
        for dims in (1, 2):
            shape = tuple(x.shape[-dims:])
            tensors = [x, *parameters(shape, dtype, which)]
            ours, theirs = leaves(tensors, device=True), leaves(tensors, device=False)
            result, expected = F.layer_norm(ours[0], shape, *ours[1:]), F.layer_norm(theirs[0], shape, *theirs[1:])
            assert result.stride() == expected.stride()
            torch.testing.assert_close(result.detach().cpu(), expected.detach())
            grad = make("contiguous" if x.dim() == 3 else layout, dtype, seed=5)
            grad = grad if grad.shape == x.shape else torch.zeros(x.shape, dtype=dtype)
            result.backward(on_device(grad))
            expected.backward(grad)
            exact = leaves([None if t is None else t.double() for t in tensors], device=False)
            F.layer_norm(exact[0], shape, *exact[1:]).backward(grad.double())
            for a, b, c in zip(ours, theirs, exact, strict=True):
                if a is not None:
                    assert a.grad.dtype == dtype
                    # mean and rstd are stored in the dtype of the parameters, so allow 1.5 times the CPU's error.
                    error = (a.grad.cpu().double() - c.grad).abs()
                    slack = (b.grad.double() - c.grad).abs().amax() if b.numel() else 0
                    eps = 4 * torch.finfo(dtype).eps
                    assert (error <= 1.5 * slack + eps * (1 + c.grad.abs())).all()


@pytest.mark.parametrize("shape", [(3, 100_003), (2000, 768), (3000, 768), (5003, 64), (70_001, 3), (1, 1), (513, 257)])
def test_accuracy(shape: tuple[int, int]) -> None:
    x = torch.randn(shape) * 2 + 100
    w, bias, grad = torch.rand(shape[1]) + 0.5, torch.randn(shape[1]), torch.randn(shape)
    exact = [t.double().requires_grad_() for t in (x, w, bias)]
    F.layer_norm(exact[0], shape[1:], exact[1], exact[2]).backward(grad.double())
    ours = [t.to("mpsx").requires_grad_() for t in (x, w, bias)]
    y = F.layer_norm(ours[0], shape[1:], ours[1], ours[2])
    y.backward(grad.to("mpsx"))
    cpu = [t.clone().requires_grad_() for t in (x, w, bias)]
    F.layer_norm(cpu[0], shape[1:], cpu[1], cpu[2]).backward(grad)
    expected = F.layer_norm(x.double(), shape[1:], w.double(), bias.double())
    theirs = (F.layer_norm(x, shape[1:], w, bias).double() - expected).abs().max().item()
    assert (y.detach().cpu().double() - expected).abs().max().item() <= max(1.5 * theirs, 3e-5)
    for a, b, c in zip(ours, cpu, exact, strict=True):
        scale = c.grad.abs().max().item() + 1
        error = (a.grad.cpu().double() - c.grad).abs().max().item()
        assert error <= max(1.5 * (b.grad.double() - c.grad).abs().max().item(), 2e-5 * scale)


def test_accuracy_of_a_long_row() -> None:
    x = torch.randn(9_400_003) + 3
    y = F.layer_norm(x.to("mpsx"), x.shape).cpu()
    assert (y - F.layer_norm(x.double(), x.shape)).abs().max().item() < 3e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_input_with_float_parameters(dtype: torch.dtype) -> None:
    x = torch.randn(33, 65).to(dtype)
    tensors = [x, *parameters((65,), torch.float32, "wb")]
    ours, theirs = leaves(tensors, device=True), leaves(tensors, device=False)
    F.layer_norm(ours[0], (65,), *ours[1:]).sum().backward()
    results = torch.native_layer_norm(ours[0], (65,), ours[1], ours[2], 1e-5)
    expected = torch.native_layer_norm(theirs[0], (65,), theirs[1], theirs[2], 1e-5)
    for a, b in zip(results, expected, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        torch.testing.assert_close(a.detach().cpu(), b.detach())
    exact = leaves([t.double() for t in tensors], device=False)
    F.layer_norm(exact[0], (65,), *exact[1:]).sum().backward()
    for a, b in zip(ours, exact, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad.to(a.dtype), atol=2e-5, rtol=torch.finfo(a.dtype).eps * 40)


def test_threads_do_not_change_results() -> None:
    x, w, grad = torch.randn(3000, 300), torch.rand(300), torch.randn(3000, 300)

    def gradients() -> tuple[torch.Tensor, torch.Tensor]:
        a, b = x.to("mpsx").requires_grad_(), w.to("mpsx").requires_grad_()
        F.layer_norm(a, (300,), b, b).backward(grad.to("mpsx"))
        return a.grad.cpu(), b.grad.cpu()

    results = at_thread_counts(gradients)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_constant_and_special_rows() -> None:
    x = torch.tensor([[3.0] * 8, [0.0] * 8, [1e15] * 8, [float("nan")] + [1.0] * 7, [float("inf")] + [1.0] * 7])
    torch.testing.assert_close(F.layer_norm(x.to("mpsx"), (8,)).cpu(), F.layer_norm(x, (8,)), equal_nan=True)


@pytest.mark.parametrize("dtype", FLOAT)
def test_kernel_ran(dtype: torch.dtype) -> None:
    x, w = torch.rand(4, 6).to(dtype).to("mpsx").requires_grad_(), torch.rand(6).to(dtype).to("mpsx").requires_grad_()
    tag = TAGS[dtype]
    with mpsx.profiler.launch_log() as log:
        y = F.layer_norm(x, (6,), w, w)
    assert list(log) == [f"kernel:layer_norm_{tag}"]
    with mpsx.profiler.launch_log() as log:
        y.backward(y.detach())
    assert list(log)[:2] == [f"kernel:layer_norm_backward_{tag}", f"kernel:layer_norm_backward_weight_{tag}"]


def test_many_rows_use_the_fused_kernel() -> None:
    x, w = torch.rand(2100, 8).to("mpsx").requires_grad_(), torch.rand(8).to("mpsx").requires_grad_()
    y = F.layer_norm(x, (8,), w, w)
    with mpsx.profiler.launch_log() as log:
        y.backward(y.detach())
    assert list(log)[:2] == ["kernel:layer_norm_backward_fused_f32", "kernel:norm_merge_f32"]


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="Given normalized_shape"):
        F.layer_norm(torch.ones(3, 4, device="mpsx"), (5,))
    with pytest.raises(RuntimeError, match="Expected weight to be of same shape"):
        F.layer_norm(torch.ones(3, 4, device="mpsx"), (4,), torch.ones(3, device="mpsx"))
