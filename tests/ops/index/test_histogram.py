"""histogram and histogramdd: counts, weights, densities, edges and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layouts import on_device
from torch.utils._pytree import tree_leaves, tree_map

pytestmark = pytest.mark.usefixtures("no_fallback")


def compare(function: Any, *inputs: Any, **options: Any) -> None:
    move = lambda v: on_device(v) if isinstance(v, torch.Tensor) else v  # noqa: E731
    ours = tree_leaves(function(*tree_map(move, list(inputs)), **tree_map(move, options)))
    for a, b in zip(ours, tree_leaves(function(*inputs, **options)), strict=True):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_histogram(density: bool, weighted: bool) -> None:
    options = {"density": density, "weight": torch.rand(6, 50) if weighted else None}
    x = (torch.randint(-8, 9, (6, 50)) / 4).float()  # many values on a bin edge
    compare(torch.histogram, x, 8, range=(-1.0, 1.0), **options)
    compare(torch.histogram, x, 8, **options)
    compare(torch.histogram, x.clone().t().contiguous().t(), torch.tensor([-2.0, -0.5, 0.25, 2.0]), **options)
    compare(torch.histogram, x.new_zeros(6, 50), 3, **options)


def test_several_dimensions() -> None:
    x, weight = torch.randn(40, 3), torch.rand(40)
    compare(torch.histogramdd, x, [2, 3, 4])
    compare(torch.histogramdd, x, [2, 3, 4], range=[-1.0, 1.0, -0.5, 2.0, 0.0, 1.0], weight=weight, density=True)
    edges = [torch.tensor([-1.0, 0.0, 1.0]), torch.linspace(-2, 2, 4), torch.linspace(-1, 1, 3)]
    compare(torch.histogramdd, x, edges, weight=weight)


def test_out_and_errors() -> None:
    x = torch.rand(9, device="mpsx")
    hist, edges = torch.empty(0, device="mpsx"), torch.empty(0, device="mpsx")
    torch.histogram(x, 3, out=(hist, edges))
    assert hist.sum().item() == 9
    assert edges.shape == (4,)
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        torch.histogram(x, 0)
    with pytest.raises(RuntimeError, match="weight tensor"):
        torch.histogram(x, 3, weight=torch.rand(2, device="mpsx"))
    with pytest.raises(RuntimeError, match="is not finite"):
        torch.histogram(x / 0, 3)
