"""index_select and embedding."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from deferred_errors import raises_after_sync
from layouts import make, on_device
from tables import DTYPES

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

LAYOUTS = ("contiguous", "transposed", "slice", "step", "expanded", "channels_last")


@pytest.mark.parametrize("dtype", DTYPES["ALL"] + (torch.float64, torch.complex64), ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_index_select(layout: str, dtype: torch.dtype) -> None:
    x = make(layout, dtype)
    for dim in range(-x.dim(), x.dim()):
        for index_type in (torch.int64, torch.int32):
            index = torch.randint(0, x.size(dim), (11,)).to(index_type)
            strided = torch.randint(0, x.size(dim), (22,)).to(index_type)[::2]
            for i in (index, strided, index[:0], index[3]):
                result = on_device(x).index_select(dim, i.to("mpsx"))
                assert torch.equal(result.cpu(), x.index_select(dim, i))


def test_scalars_and_empties() -> None:
    x = torch.tensor(3.0)
    assert torch.equal(x.to("mpsx").index_select(0, torch.tensor([0], device="mpsx")).cpu(), x)
    empty = torch.zeros(4, 0)
    index = torch.tensor([3, 1, 1])
    assert empty.to("mpsx").index_select(0, index.to("mpsx")).shape == (3, 0)


def test_out() -> None:
    x, index = torch.randn(5, 6), torch.tensor([4, 0, 2])
    expected = x.index_select(1, index)
    for out in (torch.empty(5, 3), torch.empty(0), torch.empty(3, 5).t(), torch.empty(5, 6)[:, ::2]):
        on = on_device(out)
        torch.index_select(x.to("mpsx"), 1, index.to("mpsx"), out=on)
        assert torch.equal(on.cpu(), expected)
    with pytest.raises(RuntimeError, match="same scalar type"):
        torch.index_select(x.to("mpsx"), 1, index.to("mpsx"), out=torch.empty(5, 3, dtype=torch.half, device="mpsx"))


@pytest.mark.parametrize("shape", [(9, 4), (9,), (3, 9)], ids=str)
@pytest.mark.parametrize("bad", [-1, 9, 2**40])
def test_out_of_range(shape: tuple[int, ...], bad: int) -> None:
    x = torch.randn(shape).to("mpsx")
    dim = shape.index(9)
    index = torch.tensor([0, bad, 3], device="mpsx")
    message = rf"index_select: index {bad} is out of bounds for dimension {dim} with size 9"
    with raises_after_sync(IndexError, match=message):
        x.index_select(dim, index)
    x.index_select(dim, index.clamp(0, 8))  # the error must not persist


def test_errors() -> None:
    x = torch.randn(4, 5).to("mpsx")
    with pytest.raises(IndexError, match="Index is supposed to be a vector"):
        x.index_select(0, torch.zeros(2, 2, dtype=torch.long, device="mpsx"))
    with pytest.raises(RuntimeError, match="Expected dtype int32 or int64"):
        x.index_select(0, torch.zeros(2, device="mpsx"))
    with pytest.raises(RuntimeError, match="on the same device"):
        x.index_select(0, torch.tensor([1]))


@pytest.mark.parametrize("dtype", DTYPES["FLOAT"], ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "slice", "step"])
def test_embedding(layout: str, dtype: torch.dtype) -> None:
    base = torch.randn(20, 48).to(dtype)
    weight = {"contiguous": base, "transposed": base.t(), "slice": base[2:, 5:30], "step": base[:, ::3]}[layout]
    rows = weight.size(0)
    for shape in ((), (7,), (3, 5), (2, 0, 4)):
        for index_type in (torch.int64, torch.int32):
            index = torch.randint(0, rows, shape).to(index_type)
            result = F.embedding(index.to("mpsx"), on_device(weight))
            assert torch.equal(result.cpu(), F.embedding(index, weight))


def test_embedding_errors() -> None:
    weight = torch.randn(5, 3).to("mpsx")
    for bad in (5, -1):
        message = f"embedding: index {bad} is out of bounds for dimension 0 with size 5"
        with raises_after_sync(IndexError, match=message):
            F.embedding(torch.tensor([0, bad], device="mpsx"), weight)
    with pytest.raises(RuntimeError, match="'weight' must be 2-D"):
        torch.embedding(weight[0], torch.tensor([0], device="mpsx"))
    with pytest.raises(RuntimeError, match="Long, Int"):
        F.embedding(torch.tensor([0.0], device="mpsx"), weight)


def test_kernels_run() -> None:
    weight = torch.randn(5, 3).to("mpsx")
    with mpsx.profiler.launch_log() as log:
        F.embedding(torch.tensor([4, 1], device="mpsx"), weight)
        weight.half().index_select(1, torch.tensor([2, 0], device="mpsx"))
    assert "kernel:index_rows_i32" in log
    assert "kernel:index_check" in log and "kernel:index_elements_i16" in log
