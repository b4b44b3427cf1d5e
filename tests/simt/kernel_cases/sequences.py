"""ctc_loss and its gradient."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernel_cases import Case, case, values

aten = torch.ops.aten


def ctc(x: torch.Tensor, targets: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the loss and the gradient of the log-probabilities."""
    lengths = [9, 7, 9], [20, 1, 0]
    loss, alpha = aten._ctc_loss(x, targets, *lengths)
    return loss, aten._ctc_loss_backward(g, x, targets, *lengths, loss, alpha, 0)


def cases() -> Iterator[Case]:
    targets = torch.arange(60).view(3, 20) % 4 + 1
    yield case("ctc_loss", ctc, values(9, 3, 5).log_softmax(2), targets, values(3, seed=1), reference="none")
