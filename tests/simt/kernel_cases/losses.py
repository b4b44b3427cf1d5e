"""Losses and their gradients, with and without reduction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from tables import FLOAT, TAGS

from kernel_cases import Case, case, values

LOSSES = {
    "mse": F.mse_loss,
    "smooth_l1": partial(F.smooth_l1_loss, beta=0.7),
    "huber": partial(F.huber_loss, delta=0.7),
    "binary_cross_entropy": F.binary_cross_entropy,
}


def loss(
    function: Callable[..., torch.Tensor], reduction: str, x: torch.Tensor, target: torch.Tensor, g: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Return the loss and its gradient."""
    leaf = x.detach().requires_grad_()
    result = function(leaf, target, reduction=reduction)
    return result, *torch.autograd.grad(result, leaf, g)


def pointwise() -> Iterator[Case]:
    for dtype in FLOAT:
        for name, function in LOSSES.items():
            unit = name == "binary_cross_entropy"
            x, t = (values(91, 101, dtype=dtype, low=0.1 if unit else -2, high=0.9 if unit else 2, seed=s)
                    for s in (0, 1))  # fmt: skip
            for reduction in ("none", "mean"):
                g = values(*((91, 101) if reduction == "none" else ()), dtype=dtype, seed=2)
                yield case(f"{name} {reduction} {TAGS[dtype]}", loss, function, reduction, x, t, g)


def classes() -> Iterator[Case]:
    generator = torch.Generator().manual_seed(0)
    for dtype in FLOAT:
        # There are enough samples for a two-step reduction.
        x, target = values(5000, 3, dtype=dtype), torch.randint(0, 3, (5000,), generator=generator)
        for reduction in ("none", "mean"):
            g = values(*((5000,) if reduction == "none" else ()), dtype=dtype, seed=2)
            yield case(f"nll_loss {reduction} {TAGS[dtype]}",
                       loss, F.nll_loss, reduction, x, target, g)  # fmt: skip


def scores() -> Iterator[Case]:
    """Generate rows of logits that are reduced by one lane, several lanes or a threadgroup. Some exceed a threadgroup's
    registers."""
    generator = torch.Generator().manual_seed(0)
    for dtype in FLOAT:
        for rows, size in ((3000, 3), (67, 40), (3, 3000)):
            x, target = values(rows, size, dtype=dtype), torch.randint(0, size, (rows,), generator=generator)
            for reduction in ("none", "mean"):
                g = values(*((rows,) if reduction == "none" else ()), dtype=dtype, seed=2)
                yield case(f"cross_entropy {rows} {reduction} {TAGS[dtype]}",
                           loss, F.cross_entropy, reduction, x, target, g)  # fmt: skip
    # There are so many rows that one threadgroup cannot sum the results of all threadgroups.
    x, target = values(520, 1100), torch.randint(0, 1100, (520,), generator=generator)
    yield case("cross_entropy 520", loss, F.cross_entropy, "mean", x, target, values(seed=2))


def margins() -> Iterator[Case]:
    """Generate more classes than a threadgroup has threads. Some lists of labels end early or repeat a label."""
    generator = torch.Generator().manual_seed(0)
    x, target = values(9, 1100), torch.randint(0, 1100, (9,), generator=generator)
    labels = torch.randint(0, 1100, (9, 1100), generator=generator)
    labels[torch.arange(9), torch.arange(9)] = -1
    labels[8, 3] = labels[8, 1]
    weight = values(1100, low=0.5, high=2, seed=1)
    for reduction in ("none", "mean"):
        g = values(*((9,) if reduction == "none" else ()), seed=2)
        for p in (1, 2):
            def weighted(
                w: torch.Tensor, *rest: torch.Tensor, p: int = p, reduction: str = reduction
            ) -> tuple[torch.Tensor, ...]:
                return loss(partial(F.multi_margin_loss, p=p, margin=0.5, weight=w), reduction, *rest)

            yield case(f"multi_margin_loss {p} {reduction}", weighted, weight, x, target, g)
        yield case(f"multilabel_margin_loss {reduction}", loss, F.multilabel_margin_loss, reduction, x, labels, g)


def cases() -> Iterator[Case]:
    yield from pointwise()
    yield from classes()
    yield from scores()
    yield from margins()
