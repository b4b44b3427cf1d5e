"""cross_entropy: fused kernels for rows of logits, and PyTorch's composite implementation for all other calls."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from deferred_errors import raises_after_sync
from error_messages import error_messages
from tables import FLOAT
from threads import at_thread_counts
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

# Use few rows and many rows. Each is reduced by one lane, part of a SIMD group, a SIMD group, or a threadgroup.
SHAPES = [(1, 1), (5, 3), (7, 64), (33, 1000), (3000, 5), (513, 17), (4, 50257), (2, 70001), (70000, 2)]


def problem(shape: tuple[int, int], dtype: torch.dtype, ignore_index: int = -100) -> tuple[torch.Tensor, ...]:
    """Return logits, targets, and class weights. Every fourth target is ignored."""
    target = torch.randint(0, shape[1], shape[:1])
    if shape[0] > 1:
        target[::4] = ignore_index
    return (torch.randn(shape) * 3).to(dtype), target, torch.rand(shape[1]).add(0.25).to(dtype)


def loss_of(x: torch.Tensor, *arguments: object, **named: object) -> torch.Tensor:
    """Compute the loss, and check that the fused kernels ran."""
    before = x.device.type
    loss = F.cross_entropy(x, *arguments, **named)
    assert before != "mpsx" or "cross_entropy_rows" in loss.grad_fn.name()
    return loss


def compare(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, **named: object) -> None:
    """Compare the loss and its gradient with the CPU's float64 results."""
    a, b = x.double().requires_grad_(), x.to("mpsx").requires_grad_()
    expected = loss_of(a, target, weight if weight is None else weight.double(), **named)
    result = loss_of(b, target.to("mpsx"), weight if weight is None else weight.to("mpsx"), **named)
    assert result.dtype == x.dtype
    torch.testing.assert_close(result.cpu(), expected.to(x.dtype), equal_nan=True)
    gradient = torch.rand(expected.shape).to(x.dtype)
    expected.backward(gradient.double())
    result.backward(gradient.to("mpsx"))
    assert b.grad.dtype == x.dtype
    torch.testing.assert_close(b.grad.cpu(), a.grad.to(x.dtype), equal_nan=True)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(shape: tuple[int, int], reduction: str) -> None:
    for dtype in FLOAT:
        for ignore_index in (-100, 0):
            x, target, weights = problem(shape, dtype, ignore_index)
            for weight in (None, weights):
                compare(x, target, weight, ignore_index=ignore_index, reduction=reduction)


def test_all_ignored() -> None:
    x, target, _ = problem((6, 5), torch.float32)
    leaf = x.to("mpsx").requires_grad_()
    loss = loss_of(leaf, torch.full_like(target, -100).to("mpsx"))
    loss.backward()
    assert loss.isnan().item()
    assert leaf.grad.eq(0).all().item()


def test_logits_of_every_magnitude() -> None:
    """Adding a large logit must not round away the logarithm of the sum. Masked classes have the logit -inf."""
    x = torch.randn(8, 300) + torch.tensor([0.0, 1e3, -1e4, 1e6, 3e7, -1e20, 100, 5])[:, None]
    x[:, ::3] = -torch.inf
    compare(x, torch.full((8,), 4), None, reduction="none")
    x[6, 2], x[7] = torch.inf, -torch.inf
    compare(x, torch.full((8,), 4), None, reduction="none")
    x[5, 1] = torch.nan
    compare(x, torch.full((8,), 3), None, reduction="none")


def test_layouts_and_byte_targets() -> None:
    x, target, weight = problem((40, 9), torch.float32, 0)
    expected = F.cross_entropy(x, target, weight)
    wide = torch.zeros(40, 20)
    wide[:, 3:12] = x
    weights = torch.stack([weight, weight], 1).to("mpsx")[:, 0]
    for other in (x.t().contiguous().to("mpsx").t(), wide.to("mpsx")[:, 3:12]):
        for indices in (target, target.byte(), torch.stack([target, target], 1)[:, 1]):
            leaf = other.requires_grad_()
            torch.testing.assert_close(loss_of(leaf, indices.to("mpsx"), weights).cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype: torch.dtype) -> None:
    """Under autocast, half inputs have a float32 loss, as for log_softmax. The weight keeps its dtype."""
    x, target, weight = problem((50, 300), dtype)
    a, b = x.float().requires_grad_(), x.to("mpsx").requires_grad_()
    expected = F.cross_entropy(a, target, weight.float())
    with torch.autocast("mpsx", dtype):
        loss = loss_of(b, target.to("mpsx"), weight.float().to("mpsx"))
        rows = loss_of(b, target.to("mpsx"), reduction="none")
    assert loss.dtype == rows.dtype == torch.float32
    torch.testing.assert_close(loss.cpu(), expected)
    expected.backward()
    loss.backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad.to(dtype))


def test_memory_of_the_gradient() -> None:
    """For the backward pass, the operator saves the logits and two numbers per row, but no log-probabilities."""
    x = torch.randn(256, 4096, device="mpsx", requires_grad=True)
    target = torch.zeros(256, dtype=torch.long, device="mpsx")
    torch.mpsx.synchronize()
    before = torch.mpsx.memory_allocated()
    loss = loss_of(x, target)
    assert torch.mpsx.memory_allocated() - before < 64 << 10
    loss.backward()


def test_second_derivatives() -> None:
    x, target, weight = problem((6, 5), torch.float32)
    gradients = []
    for device in ("cpu", "mpsx"):
        leaf, g = x.to(device).requires_grad_(), torch.rand(6, generator=torch.Generator().manual_seed(0))
        g = g.to(device).requires_grad_()
        loss = F.cross_entropy(leaf, target.to(device), weight.to(device), reduction="none")
        (first,) = torch.autograd.grad(loss, leaf, g, create_graph=True)
        gradients.append([first, *torch.autograd.grad(first.square().sum(), (leaf, g))])
    for result, expected in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(result.cpu(), expected)


def test_transforms() -> None:
    """Under torch.func transforms, PyTorch decomposes cross_entropy."""
    x, target, _ = problem((6, 5), torch.float32)
    y, t = x.to("mpsx"), target.to("mpsx")
    func = torch.func

    def one(v: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(v[None], i[None], reduction="sum")

    for transform in (func.vmap(one), func.vmap(func.grad(one)), func.vmap(func.hessian(one))):
        torch.testing.assert_close(transform(y, t).cpu(), transform(x, target))
    tangent = torch.randn(6, 5)
    expected = func.jvp(lambda v: F.cross_entropy(v, target), (x,), (tangent,))
    result = func.jvp(lambda v: F.cross_entropy(v, t), (y,), (tangent.to("mpsx"),))
    for r, e in zip(result, expected, strict=True):
        torch.testing.assert_close(r.cpu(), e)


@pytest.mark.parametrize(
    "change",
    ["smoothing", "probabilities", "images", "one sample", "no samples", "weight with a gradient", "inference"],
)
def test_composed_cases(change: str) -> None:
    """Calls that have no fused kernel match the CPU."""
    x, target, weight = problem((6, 5), torch.float32)
    named = {"label_smoothing": 0.1} if change == "smoothing" else {}
    if change == "probabilities":
        target = torch.rand(6, 5).softmax(1)
    elif change == "images":
        x, target = torch.randn(2, 5, 3, 4), torch.randint(0, 5, (2, 3, 4))
    elif change == "one sample":
        x, target = x[1], target[1]
    elif change == "no samples":
        x, target = x[:0], target[:0]
    elif change == "weight with a gradient":
        target = torch.rand(6, 5).softmax(1)  # only class probabilities have a gradient
        weight.requires_grad_()
    results = []
    for device in ("cpu", "mpsx"):
        leaf, w = x.to(device).requires_grad_(), weight.detach().to(device).requires_grad_(weight.requires_grad)
        if change == "inference":
            with torch.inference_mode():
                results.append([F.cross_entropy(x.to(device), target.to(device), w)])
            continue
        loss = F.cross_entropy(leaf, target.to(device), w, **named)
        results.append([loss, *torch.autograd.grad(loss, [leaf, w][: 1 + w.requires_grad])])
    for result, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(result.cpu(), expected, equal_nan=True)


def test_subclasses_see_composed_operators() -> None:
    """Tensor subclasses receive PyTorch's operators. DTensor and torch.compile have no rules for mpsx's operators."""
    x, target, _ = problem((6, 5), torch.float32)
    pair = TwoTensor(x.to("mpsx"), x.to("mpsx"))
    seen = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Names():
        result = F.cross_entropy(pair, target.to("mpsx"))
    assert "aten._log_softmax.default" in seen
    torch.testing.assert_close(result.a.cpu(), F.cross_entropy(x, target))


def test_errors() -> None:
    """The error messages are the same as on the CPU."""
    x, target, weight = problem((6, 5), torch.float32)
    for wrong in ((x, target[:5]), (x, target, weight[:4]), (x, target.int()), (x[:, :, None], target)):
        if wrong[1].dtype == torch.int32 and torch.__version__ < "2.13":  # before 2.13, the message is different
            continue
        cpu, device = error_messages(lambda d, wrong=wrong: F.cross_entropy(*(t.to(d) for t in wrong)))
        assert cpu == device
    with pytest.raises(RuntimeError, match="cross_entropy_loss: expected scores"):
        torch.ops.mpsx.cross_entropy_rows(x.to("mpsx"), target[:5].to("mpsx"), None, 1, -100, False)


@pytest.mark.parametrize("bad", [5, -1])
def test_out_of_range(bad: int) -> None:
    x, target, _ = problem((6, 5), torch.float32)
    target[3] = bad
    with raises_after_sync(IndexError, match=f"nll_loss: index {bad} is out of bounds for dimension 1 with size 5"):
        F.cross_entropy(x.to("mpsx"), target.to("mpsx"))


def test_no_classes() -> None:
    """If there are no classes, every target is out of range."""
    scores, target = torch.zeros(3, 0, device="mpsx"), torch.zeros(3, dtype=torch.long, device="mpsx")
    for reduction in ("none", "mean"):
        with raises_after_sync(IndexError, match="nll_loss: index 0 is out of bounds for dimension 1 with size 0"):
            mpsx.ops.cross_entropy(scores, target, reduction=reduction)


def test_sums_do_not_depend_on_threads() -> None:
    x, target = torch.randn(200_000, 3), torch.randint(0, 3, (200_000,))
    losses = at_thread_counts(lambda: F.cross_entropy(x.to("mpsx"), target.to("mpsx")).item())
    assert losses[0] == losses[1] == losses[2]
    exact = F.cross_entropy(x.double(), target).item()
    assert abs(losses[0] - exact) < 2e-7 * exact
