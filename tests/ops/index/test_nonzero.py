"""nonzero and masked_select."""

from __future__ import annotations

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import DTYPES

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("dtype", DTYPES["ALL"], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nonzero(layout: str, dtype: torch.dtype) -> None:
    x = make(layout, dtype, low=-2, high=2)
    x = x.round() if dtype.is_floating_point else x
    expected, result = x.nonzero(), on_device(x).nonzero()
    assert torch.equal(result.cpu(), expected) and result.stride() == expected.stride()
    for a, b in zip(on_device(x).nonzero(as_tuple=True), x.nonzero(as_tuple=True), strict=True):
        assert torch.equal(a.cpu(), b)


def test_large_and_special() -> None:
    x = torch.randint(0, 3, (50_000,)).float()
    x[::7] = float("nan")
    x[1::7] = -0.0
    assert torch.equal(x.to("mpsx").nonzero().cpu(), x.nonzero())
    wide = torch.randint(0, 2, (30, 41, 57))
    assert torch.equal(wide.to("mpsx").nonzero().cpu(), wide.nonzero())
    assert torch.zeros(10_000, device="mpsx").nonzero().shape == (0, 1)


def test_out() -> None:
    x = torch.tensor([[0, 1], [2, 0]])
    for out in (torch.empty(2, 2, dtype=torch.long), torch.empty(0, dtype=torch.long)):
        result = on_device(out)
        torch.nonzero(x.to("mpsx"), out=result)
        assert torch.equal(result.cpu(), x.nonzero())
    with pytest.raises(RuntimeError, match="Expected out tensor to have scalar type Long"):
        torch.nonzero(x.to("mpsx"), out=torch.empty(2, 2, device="mpsx"))


@pytest.mark.parametrize("dtype", DTYPES["ALL"] + (torch.float64,), ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_masked_select(layout: str, dtype: torch.dtype) -> None:
    x, mask = make(layout, dtype), make(layout, torch.bool, seed=1)
    assert torch.equal(on_device(x).masked_select(on_device(mask)).cpu(), x.masked_select(mask))


def test_masked_select_broadcasts() -> None:
    x, mask = torch.randn(4, 1, 5), torch.rand(3, 1) < 0.5
    expected = x.masked_select(mask)
    assert torch.equal(x.to("mpsx").masked_select(mask.to("mpsx")).cpu(), expected)
    out = torch.empty(0, device="mpsx")
    torch.masked_select(x.to("mpsx"), mask.to("mpsx"), out=out)
    assert torch.equal(out.cpu(), expected)
    with pytest.raises(RuntimeError, match="expected BoolTensor for mask"):
        x.to("mpsx").masked_select(torch.zeros(3, 1, dtype=torch.long, device="mpsx"))


def test_kernels_run() -> None:
    x = torch.ones(4, 3, device="mpsx")
    with mpsx.profiler.launch_log() as log:
        x.nonzero()
    assert log == ["kernel:nonzero_count_f32", "kernel:nonzero_scan", "kernel:nonzero_fill_f32"]
