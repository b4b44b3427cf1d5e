"""cdist, pdist and their gradients, for every norm."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from kernel_cases import Case, case, values

aten = torch.ops.aten


def distances(x: torch.Tensor, y: torch.Tensor, g: torch.Tensor, p: float) -> tuple[torch.Tensor, ...]:
    """Return cdist, pdist and their gradients."""
    d, pairs = aten._cdist_forward(x, y, p, 2), aten._pdist_forward(x[0], p)
    of_pairs = aten._pdist_backward(g.flatten()[: pairs.numel()], x[0], p, pairs)
    return d, pairs, aten._cdist_backward(g, x, y, p, d), of_pairs


def cases() -> Iterator[Case]:
    for p in (0.0, 1.0, 2.0, 3.0, math.inf):
        x, y = values(2, 5, 70), values(2, 9, 70, seed=1)
        yield case(f"distances of short points {p}", aten._pdist_forward, values(45, 7), p, reference="same")
        yield case(f"distances {p}", distances, x, y, values(2, 5, 9, seed=2), p, reference="same")
