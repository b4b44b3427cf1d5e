"""Losses and distances."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from .compare import Case
from .values import FLOATS, REGIMES, regime, some_layout

G = torch.Generator
LOSSES: dict[str, Callable] = {
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "smooth_l1_loss beta": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.25),
    "huber_loss": F.huber_loss,
    "huber_loss delta": lambda x, y, reduction: F.huber_loss(x, y, reduction=reduction, delta=7.0),
    "bce": lambda x, y, reduction: F.binary_cross_entropy(unit(x), unit(y), reduction=reduction),
    "bce_with_logits": lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y, reduction=reduction),
    "bce_with_logits pos": lambda x, y, reduction: F.binary_cross_entropy_with_logits(
        x, y, pos_weight=torch.full((), 3.0, dtype=x.dtype, device=x.device), reduction=reduction),
    "kl_div": lambda x, y, reduction: F.kl_div(x, y, reduction=reduction),
    "kl_div log": lambda x, y, reduction: F.kl_div(x, y, reduction=reduction, log_target=True),
    "soft_margin": lambda x, y, reduction: F.soft_margin_loss(x, y.detach().sign(), reduction=reduction),
    "hinge_embedding": lambda x, y, reduction: F.hinge_embedding_loss(x, y.detach().sign(), reduction=reduction),
    "poisson_nll": lambda x, y, reduction: F.poisson_nll_loss(x, y, reduction=reduction, full=True),
    "gaussian_nll": lambda x, y, reduction: F.gaussian_nll_loss(x, y, (y * 0 + 2.5).detach(), reduction=reduction),
    "multilabel_soft_margin": lambda x, y, reduction: F.multilabel_soft_margin_loss(
        x, (y > 0).to(x.dtype), reduction=reduction),
    "cosine_embedding": lambda x, y, reduction: F.cosine_embedding_loss(
        x, y, torch.ones(x.shape[0], device=x.device), reduction=reduction),
    "triplet": lambda x, y, reduction: F.triplet_margin_loss(x, y, y.flip(0), reduction=reduction),
    "pairwise_distance": lambda x, y, reduction: F.pairwise_distance(x, y),
    "cosine_similarity": lambda x, y, reduction: F.cosine_similarity(x, y),
    "cdist": lambda x, y, reduction: torch.cdist(x.float(), y.float()),
    "nll": lambda x, y, reduction: F.nll_loss(x, labels(x), reduction=reduction),
    "nll weight": lambda x, y, reduction: F.nll_loss(x, labels(x), weight=y[0].detach(), reduction=reduction),
    "cross_entropy": lambda x, y, reduction: F.cross_entropy(x, labels(x), reduction=reduction),
    "cross_entropy smooth": lambda x, y, reduction: F.cross_entropy(
        x, labels(x), label_smoothing=0.1, reduction=reduction),
    "cross_entropy soft": lambda x, y, reduction: F.cross_entropy(x, y, reduction=reduction),
    "multi_margin": lambda x, y, reduction: F.multi_margin_loss(x, labels(x), reduction=reduction),
}  # fmt: skip


def labels(x: torch.Tensor) -> torch.Tensor:
    return (torch.arange(x.shape[0]) * 7 % x.shape[1]).to(x.device)


def unit(x: torch.Tensor) -> torch.Tensor:
    return x.detach().abs().nan_to_num(0.5, 0.25, 0.5).clamp(0, 1) if not x.requires_grad else x.abs().clamp(0, 1)


def losses(g: G) -> Iterator[Case]:
    for name, f in LOSSES.items():
        for dtype in FLOATS:
            for kind in REGIMES:
                for reduction in ("none", "mean", "sum"):
                    shape = ((4, 5), (7, 3), (3, 40))[int(torch.randint(3, (), generator=g))]
                    x, y = regime(kind, dtype, shape, g), regime(kind, dtype, shape, g)
                    if name == "bce":
                        x, y = (t.nan_to_num(0.5, 0.25, 0.5) for t in (x, y))
                    x = some_layout(x, g)
                    label = f"{name} {reduction} {kind} {shape}"
                    yield Case(label, lambda x, y, f=f, r=reduction: f(x, y, reduction=r), [x, y], True, 64.0, True)
