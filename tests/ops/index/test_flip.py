"""flip, roll, tril and triu."""

from __future__ import annotations

import itertools

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import DTYPES

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("dtype", DTYPES["ALL"] + (torch.float64,), ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_flip(layout: str, dtype: torch.dtype) -> None:
    x = make(layout, dtype)
    for count in range(x.dim() + 1):
        for dims in itertools.combinations(range(x.dim()), count):
            result = on_device(x).flip(dims)
            assert torch.equal(result.cpu(), x.flip(dims)) and result.stride() == x.flip(dims).stride()


def test_flip_of_many_dimensions() -> None:
    x = torch.randn(2, 3, 2, 4, 3, 5)
    assert torch.equal(x.to("mpsx").flip(0, 2, 3, 5).cpu(), x.flip(0, 2, 3, 5))
    with pytest.raises(RuntimeError, match="appears multiple times"):
        x.to("mpsx").flip(0, 0)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "scalar"])
def test_roll(layout: str) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        x = make(layout, dtype)
        for shifts, dims in ((3, None), (-100, None), (2, 1), (-1, -1), (20, 0), ((1, -2), (0, 2)), ((1, 1), (1, 1))):
            assert torch.equal(on_device(x).roll(shifts, dims).cpu(), x.roll(shifts, dims))


@pytest.mark.parametrize("dtype", DTYPES["ALL"], ids=str)
@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "scalar"])
def test_triangles(layout: str, dtype: torch.dtype) -> None:
    x = make(layout, dtype)
    for diagonal in (0, 1, -2, 30, -30):
        assert torch.equal(on_device(x).tril(diagonal).cpu(), x.tril(diagonal))
        assert torch.equal(on_device(x).triu(diagonal).cpu(), x.triu(diagonal))


def test_triangles_in_place_and_out() -> None:
    x = torch.randn(5, 6)
    y = x.to("mpsx")
    y.tril_()
    assert torch.equal(y.cpu(), x.tril())
    z = on_device(x.t())
    z.triu_(1)
    assert torch.equal(z.cpu(), x.t().triu(1))
    out = torch.empty(0, device="mpsx")
    torch.tril(x.to("mpsx"), out=out)
    assert torch.equal(out.cpu(), x.tril())
    broken = torch.full((2, 2), float("nan"), device="mpsx")
    assert torch.equal(broken.triu(1).isnan().cpu(), torch.tensor([[False, True], [False, False]]))


def test_kernels_run() -> None:
    x = torch.ones(4, 3, device="mpsx")
    with mpsx.profiler.launch_log() as log:
        x.flip(0)
        x.half().tril()
    assert "kernel:copy_dense_i32" in log and "kernel:triangle_i16" in log
