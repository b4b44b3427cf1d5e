"""var, std, var_mean, std_mean: values, corrections, layouts, accuracy."""

from __future__ import annotations

import itertools

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import FLOAT, TAGS

import mpsx

pytestmark = [
    pytest.mark.usefixtures("no_fallback"),
    pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning"),  # var of empty tensors warns
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["var", "std"])
def test_values(name: str, layout: str) -> None:
    function, both = getattr(torch, name), getattr(torch, f"{name}_mean")
    for dtype in FLOAT:
        x = make(layout, dtype)
        d = on_device(x)
        dims = [c for k in range(1, x.dim() + 1) for c in itertools.combinations(range(x.dim()), k)] or [()]
        for dim, correction, keepdim in itertools.product(dims, (0, 1, 2.5), (False, True)):
            expected = function(x, dim, correction=correction, keepdim=keepdim)
            result = function(d, dim, correction=correction, keepdim=keepdim)
            assert result.stride() == expected.stride()
            torch.testing.assert_close(result.cpu(), expected, equal_nan=True)
            pairs = zip(both(d, dim, correction=correction), both(x, dim, correction=correction), strict=True)
            for a, b in pairs:
                torch.testing.assert_close(a.cpu(), b, equal_nan=True)
        torch.testing.assert_close(function(d).cpu(), function(x), equal_nan=True)


SHAPES = [(1, 1_000_003), (1_000_003, 1), (3, 400_001), (400_001, 3), (7, 1000, 300), (64, 50, 9)]


@pytest.mark.parametrize("shape", SHAPES)
def test_accuracy(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape) + 1000  # the squared mean is 10^6 times the variance
    for dim in range(x.dim()):
        exact = x.double().var(dim)
        result = x.to("mpsx").var(dim).cpu().double()
        torch.testing.assert_close(result, exact, rtol=3e-5, atol=1e-6, equal_nan=True)
    torch.testing.assert_close(x.to("mpsx").std().cpu().double(), x.double().std(), rtol=3e-6, atol=0)


@pytest.mark.parametrize("far", [1, 4, 64])
def test_rows_that_start_far_from_their_mean(far: int) -> None:
    x = torch.randn(3, 4096)
    x[:, :far] += 1e4
    var, mean = torch.var_mean(x.to("mpsx"), 1)
    torch.testing.assert_close(var.cpu().double(), x.double().var(1), rtol=3e-6, atol=0)
    assert ((mean.cpu() - x.double().mean(1)).abs() < 1e-5 * x.std(1)).all()


@pytest.mark.parametrize("at", [0, 40, 199])
@pytest.mark.parametrize("rows", [200, 100_000])
def test_infinite_means(rows: int, at: int) -> None:
    """The mean of a row or column with an infinity is infinite. torch.var_mean returns it only from some positions."""
    x = torch.randn(rows, 4)
    x[at, 0], x[at, 1], x[at, 2] = float("inf"), float("-inf"), float("inf")
    x[rows - at - 1, 2] = float("-inf")
    expected = x.mean(0)
    for d, dim in ((x.to("mpsx"), 0), (x.t().contiguous().to("mpsx"), 1)):
        var, mean = torch.var_mean(d, dim)
        torch.testing.assert_close(mean.cpu(), expected, rtol=1e-4, atol=1e-6, equal_nan=True)
        assert var.isnan().tolist() == [True, True, True, False]


def test_many_short_rows() -> None:
    """Reduce rows of three contiguous or three repeated elements. The error must not grow with the number of rows."""
    x = torch.randn(60_000, generator=torch.Generator().manual_seed(0)) * 2
    for stride in (0, 1):
        y = x.as_strided((200, 3, 33, 3), (297, 99, 3, stride) if stride == 0 else (300, 100, 3, 1))
        exact = y.double().var()
        result = x.to("mpsx").as_strided(y.shape, y.stride()).var().cpu().double()
        torch.testing.assert_close(result, exact, rtol=1e-6, atol=0)


def test_out_and_gradient() -> None:
    x = make("slice", torch.float32)
    out = torch.empty(0, device="mpsx")
    assert torch.var(on_device(x), 1, out=out) is out
    torch.testing.assert_close(out.cpu(), x.var(1))
    a, b = x.clone().requires_grad_(), on_device(x).detach().requires_grad_()
    for t in (a, b):
        (t.var((0, 2)).sum() + t.std(1).sum() + torch.var_mean(t, 0)[1].sum()).backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_kernel_ran() -> None:
    for dtype in FLOAT:
        x = make("contiguous", dtype).to("mpsx")
        with mpsx.profiler.launch_log() as log:
            x.var(2)
            x.std(0)
        assert list(log) == [f"kernel:var_rows_{TAGS[dtype]}", f"kernel:var_columns_{TAGS[dtype]}"]
