"""multi_margin_loss and multilabel_margin_loss: values, reductions, gradients, and errors."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from deferred_errors import raises_after_sync
from float64_reference import compare
from layouts import on_device

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin(p: int, reduction: str) -> None:
    x, target = torch.randn(5, 7), torch.tensor([0, 6, 3, 3, 1])

    def loss(x: torch.Tensor, t: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        weight = None if weight is None else weight.detach()
        return F.multi_margin_loss(x, t, p=p, margin=0.5, weight=weight, reduction=reduction)

    compare(loss, x, target)
    compare(loss, torch.randn(7, 5).t(), target, torch.rand(7))
    compare(loss, x[0], target[0])
    compare(loss, x[:1], target[:1])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_multilabel(reduction: str) -> None:
    x = torch.randn(4, 5)
    target = torch.tensor([[3, 0, -1, 1, 4], [-1, 2, 2, 2, 2], [4, 3, 2, 1, 0], [1, 1, -1, 0, 0]])
    for rows in (slice(None), 0, slice(1)):
        compare(lambda x, t: F.multilabel_margin_loss(x, t, reduction=reduction), x[rows], target[rows])


@pytest.mark.parametrize("p", [1, 2])
def test_infinities(p: int) -> None:
    """A NaN margin is not a violation. If there are no violations, the loss is 0 even if a weight is infinite."""
    inf = torch.inf
    x = torch.tensor([[inf, 1, 2], [1, inf, 2], [-inf, 1, 2], [1, -inf, 2], [inf, inf, 2], [torch.nan, 1, 2]])
    for margin, weight in itertools.product((1.0, inf), (None, torch.tensor([inf, 1, 1]))):
        ours, theirs = on_device(x).requires_grad_(), x.clone().requires_grad_()
        for leaf in (ours, theirs):
            given = None if weight is None else weight.to(leaf.device)
            target = torch.zeros(6, dtype=torch.long, device=leaf.device)
            loss = F.multi_margin_loss(leaf, target, p=p, margin=margin, weight=given, reduction="none")
            loss.sum().backward()
            leaf.loss = loss.detach().cpu()
        torch.testing.assert_close(ours.loss, theirs.loss)
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, equal_nan=True)
    y, target = x[:5], torch.tensor([[0, 2, -1]] * 5)
    ours = F.multilabel_margin_loss(on_device(y), on_device(target), reduction="none").cpu()
    torch.testing.assert_close(ours, F.multilabel_margin_loss(y, target, reduction="none"))


def test_errors() -> None:
    x = torch.randn(2, 3, device="mpsx")
    with pytest.raises(RuntimeError, match="inconsistent target size"):
        F.multi_margin_loss(x, on_device(torch.tensor([1])))
    with pytest.raises(RuntimeError, match="inconsistent target size"):
        F.multilabel_margin_loss(x, on_device(torch.tensor([1, 2])))
    with raises_after_sync(RuntimeError, match="multi_margin_loss"):
        F.multi_margin_loss(x, on_device(torch.tensor([1, 3])))
    for wrong in ([-2, -1, 0], [0, -1, -2], [0, -1, 3]):
        with raises_after_sync(RuntimeError, match="multilabel_margin_loss"):
            F.multilabel_margin_loss(x[0], on_device(torch.tensor(wrong)))
    with pytest.raises((ValueError, RuntimeError), match=r"p == 1|Invalid p"):
        F.multi_margin_loss(x, on_device(torch.tensor([1, 2])), p=3)
