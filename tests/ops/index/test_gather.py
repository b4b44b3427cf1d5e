"""gather and take."""

from __future__ import annotations

import pytest
import torch
from deferred_errors import raises_after_sync
from error_messages import error_messages
from layouts import make, on_device
from tables import DTYPES

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

LAYOUTS = ("contiguous", "transposed", "slice", "step", "expanded", "channels_last")


@pytest.mark.parametrize("dtype", DTYPES["ALL"] + (torch.float64,), ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gather(layout: str, dtype: torch.dtype) -> None:
    x = make(layout, dtype)
    for dim in range(-x.dim(), x.dim()):
        for smaller in (False, True):
            shape = [size - 1 if smaller else size for size in x.shape]
            shape[dim] = 6
            index = torch.randint(0, x.size(dim), shape)
            assert torch.equal(on_device(x).gather(dim, index.to("mpsx")).cpu(), x.gather(dim, index))
            narrow = index.transpose(0, 1).contiguous().transpose(0, 1).int()
            assert torch.equal(on_device(x).gather(dim, on_device(narrow)).cpu(), x.gather(dim, narrow))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_expanded_index_selects_rows(dim: int) -> None:
    x = torch.randn(7, 5, 6)
    for source in (x, x.transpose(0, 2).contiguous().transpose(0, 2), x[:, :, ::2].repeat(1, 1, 2)):
        for less in (0, 1):
            shape = [size - less for size in x.shape]
            shape[dim] = 9
            row = torch.randint(0, x.size(dim), [9 if d == dim else 1 for d in range(3)])
            result = source.to("mpsx").gather(dim, row.to("mpsx").expand(shape))
            assert torch.equal(result.cpu(), source.gather(dim, row.expand(shape)))
    bad = torch.tensor([0, 9], device="mpsx").view(2, 1).expand(2, 5)
    with raises_after_sync(RuntimeError, match="gather: index 9 is out of bounds for dimension 0 with size 7"):
        torch.randn(7, 5, device="mpsx").gather(0, bad)


def test_scalars_empties_and_many_dimensions() -> None:
    scalar, zero = torch.tensor(2.5), torch.tensor(0)
    assert torch.equal(scalar.to("mpsx").gather(0, zero.to("mpsx")).cpu(), scalar.gather(0, zero))
    assert torch.equal(scalar.to("mpsx").gather(0, zero.view(1).to("mpsx")).cpu(), scalar.gather(0, zero.view(1)))
    x = torch.randn(3, 4)
    empty = torch.zeros(0, 4, dtype=torch.long)
    assert x.to("mpsx").gather(0, empty.to("mpsx")).shape == (0, 4)
    deep = torch.randn(3, 2, 4, 3, 2, 5)
    index = torch.randint(0, 4, (2, 1, 7, 2, 1, 4))
    assert torch.equal(deep.to("mpsx").gather(2, index.to("mpsx")).cpu(), deep.gather(2, index))


def test_gradient() -> None:
    x, index = torch.randn(6, 9), torch.randint(0, 9, (6, 20))
    weight = torch.randn(6, 20)
    a, b = x.clone().requires_grad_(), x.to("mpsx").requires_grad_()
    a.gather(1, index).backward(weight)
    b.gather(1, index.to("mpsx")).backward(weight.to("mpsx"))
    torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_out() -> None:
    x, index = torch.randn(5, 6), torch.randint(0, 5, (4, 6))
    expected = x.gather(0, index)
    for out in (torch.empty(4, 6), torch.empty(0), torch.empty(6, 4).t()):
        result = on_device(out)
        torch.gather(x.to("mpsx"), 0, index.to("mpsx"), out=result)
        assert torch.equal(result.cpu(), expected)


@pytest.mark.parametrize("bad", [5, -1])
def test_out_of_range(bad: int) -> None:
    x = torch.zeros(5, 3, device="mpsx")
    with raises_after_sync(RuntimeError, match=f"gather: index {bad} is out of bounds for dimension 0 with size 5"):
        x.gather(0, torch.tensor([[0, bad, 1]], device="mpsx"))


def test_error_messages_match_the_cpu() -> None:
    for index in (torch.zeros(2, dtype=torch.long), torch.zeros(4, 9, dtype=torch.long), torch.zeros(2, 3)):
        cpu, device = error_messages(lambda d, index=index: torch.zeros(4, 3, device=d).gather(0, index.to(d)))
        assert device == cpu


@pytest.mark.parametrize("layout", LAYOUTS)
def test_take(layout: str) -> None:
    for dtype in DTYPES["ALL"]:
        x = make(layout, dtype)
        index = torch.randint(-x.numel(), x.numel(), (4, 7))
        assert torch.equal(on_device(x).take(index.to("mpsx")).cpu(), x.take(index))
    out = torch.empty(0, dtype=dtype, device="mpsx")
    torch.take(on_device(x), index.to("mpsx"), out=out)
    assert torch.equal(out.cpu(), x.take(index))
    with raises_after_sync(IndexError, match="take: index"):
        on_device(x).take(torch.tensor([x.numel()], device="mpsx"))


def test_kernels_run() -> None:
    x = torch.randn(5, 3).to("mpsx")
    with mpsx.profiler.launch_log() as log:
        x.gather(0, torch.zeros(1, 3, dtype=torch.long, device="mpsx"))
    assert log[-2:] == ["kernel:index_check", "kernel:gather_i32"]
