"""ctc_loss: padded and concatenated targets, lengths, layouts, unreachable targets, gradients, and errors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from deferred_errors import raises_after_sync
from layouts import on_device

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

STEPS, BATCH, CLASSES = 20, 4, 6
INPUT, TARGET = (20, 15, 20, 3), (5, 4, 0, 3)


def run(x: torch.Tensor, targets: torch.Tensor, **options: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss and the gradient with respect to the logits."""
    leaf = x.detach().requires_grad_()
    loss = F.ctc_loss(leaf.log_softmax(2), targets, INPUT, TARGET, **options)
    loss.backward(torch.linspace(0.5, 2, loss.numel()).view(loss.shape).to(loss))
    return loss.detach().cpu(), leaf.grad.cpu()


def compare(x: torch.Tensor, targets: torch.Tensor, **options: object) -> None:
    ours = run(on_device(x), on_device(targets), **options)
    for a, b in zip(ours, run(x.double(), targets, **options), strict=True):
        torch.testing.assert_close(a, b.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_values(reduction: str) -> None:
    x, targets = torch.randn(STEPS, BATCH, CLASSES), torch.randint(1, CLASSES, (BATCH, 7))
    targets[0, 1] = targets[0, 0]  # a repeated label, which requires a blank in between
    compare(x, targets, reduction=reduction)
    compare(x.transpose(0, 1).contiguous().transpose(0, 1), targets.int(), reduction=reduction)
    joined = torch.cat([row[:length] for row, length in zip(targets, TARGET, strict=True)])
    compare(x, joined, reduction=reduction)
    compare(x, targets - 1, blank=CLASSES - 1, reduction=reduction)
    targets[:, 6] = 99  # padding
    compare(x, targets, reduction=reduction)
    with mpsx.profiler.launch_log() as log:
        run(on_device(x), on_device(targets), reduction=reduction)
    assert {"kernel:ctc_alpha", "kernel:ctc_beta", "kernel:ctc_grad"} <= set(log)


def test_unreachable_targets() -> None:
    """If the target is longer than the input, the loss is infinite, or zero with zero_infinity=True."""
    x, targets = torch.randn(STEPS, BATCH, CLASSES), torch.full((BATCH, 7), 2)
    compare(x, targets, reduction="none", zero_infinity=True)
    result = F.ctc_loss(on_device(x).log_softmax(2), on_device(targets), INPUT, TARGET, reduction="none").cpu()
    assert result.isinf().tolist() == [False, False, False, True]


def test_lengths_as_tensors_and_errors() -> None:
    x, targets = on_device(torch.randn(STEPS, BATCH, CLASSES)).log_softmax(2), on_device(torch.ones(BATCH, 7).long())
    lengths = [torch.tensor(INPUT), torch.tensor(TARGET)]
    expected = F.ctc_loss(x, targets, INPUT, TARGET, reduction="none")
    assert F.ctc_loss(x, targets, *lengths, reduction="none").equal(expected)
    assert F.ctc_loss(x, targets, *(on_device(n) for n in lengths), reduction="none").equal(expected)
    with pytest.raises(RuntimeError, match="blank must be in label range"):
        F.ctc_loss(x, targets, INPUT, TARGET, blank=CLASSES)
    with pytest.raises(RuntimeError, match="input_lengths must be of size batch_size"):
        F.ctc_loss(x, targets, INPUT[1:], TARGET)
    with raises_after_sync(IndexError, match="ctc_loss"):
        F.ctc_loss(x, targets * CLASSES, INPUT, TARGET)
