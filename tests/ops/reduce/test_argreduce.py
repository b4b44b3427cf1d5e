"""argmax, argmin, and max and min along a dimension: indices, values, ties, NaN, layouts, errors."""

from __future__ import annotations

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import DTYPES, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


def same(expected: torch.Tensor, result: torch.Tensor) -> None:
    assert result.device.type == "mpsx"
    assert result.stride() == expected.stride()
    torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0, equal_nan=True)


def first(name: str, x: torch.Tensor, dim: int | None, *, keepdim: bool = False) -> torch.Tensor:
    """Return the first index of the extremum, using argmax or argmin. On the CPU, max and min may return a later
    index."""
    return getattr(torch, f"arg{name}")(x, dim, keepdim=keepdim)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["max", "min"])
def test_values(name: str, layout: str) -> None:
    for dtype in DTYPES["ALL"]:
        x = make(layout, dtype)
        d = on_device(x)
        number = x.to(torch.uint8) if dtype == torch.bool else x  # the CPU's argmax does not support bool
        if x.numel():
            same(first(name, number, None), first(name, d, None))
            same(first(name, number, None, keepdim=True), first(name, d, None, keepdim=True))
        for dim in range(-1, max(x.dim(), 1)):
            if x.dim() and x.size(dim) == 0:
                continue
            for keepdim in (False, True):
                index = first(name, number, dim, keepdim=keepdim)
                same(index, first(name, d, dim, keepdim=keepdim))
                values, indices = getattr(torch, name)(d, dim, keepdim=keepdim)
                same(getattr(torch, name)(x, dim, keepdim=keepdim).values, values)
                same(index, indices)


@pytest.mark.parametrize("shape", [(3, 400_001), (400_001, 3), (70, 20_001), (20_001, 70), (5, 3000, 40)])
def test_large(shape: tuple[int, ...]) -> None:
    x = torch.randint(0, 50_000, shape).float()
    d = x.to("mpsx")
    for name in ("max", "min"):
        for dim in (None, *range(x.dim())):
            same(first(name, x, dim), first(name, d, dim))
            if dim is not None:
                same(getattr(torch, name)(x, dim).values, getattr(torch, name)(d, dim).values)


def test_ties_nan_infinity_and_zeros() -> None:
    infinity, nan = float("inf"), float("nan")
    for values in ([1, 3, 3, 2], [1, nan, 5, nan], [-infinity, -infinity], [-0.0, 0.0, -0.0], [infinity, nan, infinity],
                   [-nan, 1.0], [0.0, -0.0]):  # fmt: skip
        for repeat in (1, 9, 5000):
            x = torch.tensor(values * repeat)
            for name in ("max", "min"):
                same(first(name, x, None), first(name, x.to("mpsx"), None))
                table = torch.empty(len(x), 3).copy_(x[:, None])
                same(first(name, table, 0), first(name, table.to("mpsx"), 0))
    smallest = torch.full((5,), torch.iinfo(torch.int64).min)
    assert smallest.to("mpsx").argmax().item() == 0
    assert torch.full((5,), torch.iinfo(torch.int64).max).to("mpsx").argmin().item() == 0


def test_out() -> None:
    x = make("slice", torch.float32)
    out = torch.empty(0, dtype=torch.int64, device="mpsx")
    assert torch.argmax(on_device(x), 1, out=out) is out
    same(x.argmax(1), out)
    values, indices = torch.empty(9, 5, device="mpsx").t(), torch.empty(0, dtype=torch.int64, device="mpsx")
    torch.max(on_device(x), 1, out=(values, indices))
    torch.testing.assert_close(values.cpu(), x.max(1).values)
    same(x.max(1).indices, indices)


def test_gradient() -> None:
    x = make("contiguous", torch.float32)
    a, b = x.clone().requires_grad_(), x.to("mpsx").requires_grad_()
    with mpsx.fallback.using_mode("silent"):  # the gradient may fall back; other tests cover it
        for t in (a, b):
            (t.max(1).values.sum() + t.min(2).values.sum()).backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_kernel_ran() -> None:
    for dtype in DTYPES["ALL"]:
        x = make("contiguous", dtype).to("mpsx")
        with mpsx.profiler.launch_log() as log:
            torch.argmax(x, 2)
            torch.min(x, 0)
        assert list(log) == [f"kernel:argmax_rows_{TAGS[dtype]}", f"kernel:argmin_columns_{TAGS[dtype]}"]


def test_errors() -> None:
    empty = torch.empty(0, 3, device="mpsx")
    with pytest.raises(IndexError, match="Expected reduction dim"):
        torch.argmax(empty)
    for function in (torch.argmax, torch.max):
        with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
            function(empty, 0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.argmin(torch.ones(3, device="mpsx"), 1)
    with pytest.raises(RuntimeError, match="argmax: expected out of type Long, got Float"):
        torch.argmax(torch.ones(3, device="mpsx"), 0, out=torch.empty(0, device="mpsx"))


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_few_columns(columns: int) -> None:
    generator = torch.Generator().manual_seed(columns)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
        x = torch.randint(0, 9, (2, 3001, columns), generator=generator).to(dtype)  # the first of many ties wins
        for function in (torch.argmax, torch.argmin):
            assert torch.equal(function(on_device(x), 1).cpu(), function(x, 1))
            assert torch.equal(function(on_device(x)[:, ::3], 1).cpu(), function(x[:, ::3], 1))
        values, indices = torch.max(on_device(x), 1)
        assert torch.equal(values.cpu(), x.amax(1)) and torch.equal(indices.cpu(), x.argmax(1))
