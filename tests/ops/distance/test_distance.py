"""cdist and pdist with every norm: values, gradients, batches, empty inputs, identical points, and errors."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from float64_reference import compare
from layouts import on_device

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

NORMS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf]


@pytest.mark.parametrize("p", NORMS)
def test_values(p: float) -> None:
    x, y = (torch.randint(-20, 20, shape) / 8 for shape in ((2, 1, 5, 70), (3, 9, 70)))  # makes the differences exact
    # For p < 1, the terms of the gradient are about 100 times as large as their sum.
    digits = {"rtol": 1e-5, "atol": 1e-5 if p >= 1 else 2e-4}
    compare(lambda x, y: torch.cdist(x, y, p, "donot_use_mm_for_euclid_dist"), x, y, **digits)
    compare(lambda x, y: torch.cdist(x, y, p), x[0, 0].t()[::3], y[0, :5].t()[1:9], **digits)
    compare(lambda x: F.pdist(x, p), y[0].t()[:7], **digits)
    with mpsx.profiler.launch_log() as log:
        torch.cdist(on_device(x), on_device(y), p, "donot_use_mm_for_euclid_dist")
        F.pdist(on_device(y[0]), p)
    names = {0.0: "norm_0", 1.0: "norm_1", 2.0: "norm_2", math.inf: "norm_inf"}
    assert {f"kernel:distance_{names.get(p, 'norm_p')}", f"kernel:pair_distance_{names.get(p, 'norm_p')}"} <= set(log)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("points", [31, 32, 33, 64, 65, 97, 200])
def test_many_points(points: int, p: float) -> None:
    """Cover a last tile that overlaps the previous one, and dimensions that are processed one at a time."""
    for size in (0, 1, 33, 64, 65):
        x = torch.randint(-20, 20, (size, points)).t() / 8
        torch.testing.assert_close(F.pdist(on_device(x), p).cpu(), F.pdist(x.double(), p).float(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("p", NORMS)
def test_same_points(p: float) -> None:
    """Cover identical points, for which the gradient is 0, and points that share only some coordinates."""
    x = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 0.0, 5.0]])
    for function in (lambda x: torch.cdist(x, x, p), lambda x: F.pdist(x, p)):
        ours, theirs = on_device(x).requires_grad_(), x.clone().requires_grad_()
        result, expected = function(ours), function(theirs)
        torch.testing.assert_close(result.detach().cpu(), expected.detach())
        result.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


def test_cdist_by_matmul() -> None:
    x, y = torch.randn(30, 5), torch.randn(40, 5)
    compare(torch.cdist, x, y, rtol=1e-4, atol=1e-4)


def test_empty_and_errors() -> None:
    x = torch.randn(3, 4, device="mpsx")
    assert torch.cdist(x, x[:0]).shape == (3, 0)
    assert torch.cdist(x[:, :0], x[:, :0]).cpu().eq(0).all()
    assert F.pdist(x[:1]).shape == (0,)
    with pytest.raises(RuntimeError, match="same number of columns"):
        torch.cdist(x, x[:, :2])
    with pytest.raises(RuntimeError, match="non-negative p"):
        torch.cdist(x, x, -1)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0])
def test_nan(p: float) -> None:
    x = torch.tensor([[1.0, math.nan, 3.0], [math.nan] * 3, [1.0, 2.0, 3.0], [1.0, math.inf, 4.0]])
    for function in (lambda x: torch.cdist(x, x[1:], p), lambda x: F.pdist(x, p)):
        torch.testing.assert_close(function(on_device(x)).cpu(), function(x), equal_nan=True)
