"""histogram and histogramdd: counts, weights, densities, edges, and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layouts import on_device
from tables import INT
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
    x = (torch.randint(-8, 9, (6, 50)) / 4).float()  # many values are on the edge of a bin
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


def test_histc_of_integers() -> None:
    """Bins are computed with integer division, as on CUDA. PyTorch's CPU histc does not support integers.

    Mixture-of-experts models use histc to count tokens per expert.
    """
    x = torch.randint(-20, 20, (5, 301))
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        for bins, low, high in ((7, -9, 11), (40, -20, 19), (3, 0, 0), (5, -1.5, 8.5)):
            first, last = (int(low), int(high)) if low != high else (int(x.min()), int(x.max()))
            inside = x[(x >= first) & (x <= last)]
            part = ((inside - first) * bins // (last - first)).clamp_max(bins - 1)
            ours = torch.histc(x.to("mpsx", dtype), bins, low, high)
            assert ours.dtype == dtype
            assert torch.equal(ours.cpu(), torch.bincount(part, minlength=bins).to(dtype))
    large = torch.tensor([2**30, 2**30 + 1, 2**30 + 2], dtype=torch.int32, device="mpsx")
    assert torch.histc(large, 3).tolist() == [1, 1, 1]  # not representable in float32
    assert torch.histc(large[:0], 3, 0, 2).tolist() == [0, 0, 0]


def test_bincount() -> None:
    for dtype in INT:
        x = torch.randint(0, 50, (1000,)).to(dtype)
        weights = torch.rand(1000)
        assert torch.equal(torch.bincount(x.to("mpsx")).cpu(), torch.bincount(x))
        assert torch.equal(torch.bincount(x.to("mpsx"), minlength=99).cpu(), torch.bincount(x, minlength=99))
        many = x.repeat(200_000 // len(x) + 1)
        assert torch.equal(torch.bincount(many.to("mpsx")).cpu(), torch.bincount(many))
        ours = torch.bincount(many.to("mpsx"), minlength=70_000).cpu()
        assert torch.equal(ours, torch.bincount(many, minlength=70_000))
        ours = torch.bincount(x.to("mpsx"), weights.to("mpsx")).cpu()
        torch.testing.assert_close(ours, torch.bincount(x, weights).float(), rtol=1e-5, atol=1e-5)
    assert torch.bincount(torch.empty(0, dtype=torch.int64, device="mpsx"), minlength=3).tolist() == [0, 0, 0]
    for bad in (torch.tensor([1, -1]), torch.ones(2, 2, dtype=torch.int64)):
        with pytest.raises(RuntimeError, match="1-d non-negative"):
            torch.bincount(bad.to("mpsx"))
    with pytest.raises(RuntimeError, match="minlength"):
        torch.bincount(x.to("mpsx"), minlength=-1)
