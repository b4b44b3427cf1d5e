"""scatter, scatter_add and scatter_reduce."""

from __future__ import annotations

import pytest
import torch
from deferred_errors import errors_are_deferred, raises_after_sync
from error_messages import error_messages
from layouts import make, on_device
from tables import DTYPES

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

LAYOUTS = ("contiguous", "transposed", "slice", "step", "channels_last")


def index_and_source(x: torch.Tensor, dim: int, smaller: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an index with repeated entries along `dim`, and a source of small integers, so that sums are exact."""
    shape = [size - 1 if smaller else size for size in x.shape]
    shape[dim] = 2 * x.size(dim)
    index = torch.randint(0, x.size(dim), shape)
    full = [size + 1 for size in shape] if smaller else shape
    source = torch.randint(0, 2, full).bool() if x.dtype == torch.bool else torch.randint(0, 4, full).to(x.dtype)
    return index, source


@pytest.mark.parametrize("dtype", DTYPES["ALL"] + (torch.float64,), ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_set_and_fill(layout: str, dtype: torch.dtype) -> None:
    x = make(layout, dtype)
    for dim in range(-x.dim(), x.dim()):
        for smaller in (False, True):
            index, source = index_and_source(x, dim, smaller)
            i = index.to("mpsx")
            # The CPU also writes in index order, so the last value for an element is the one that remains.
            expected = x.scatter(dim, index, source)
            assert torch.equal(on_device(x).scatter(dim, i, source.to("mpsx")).cpu(), expected)
            assert torch.equal(on_device(x).scatter(dim, i, 1).cpu(), x.scatter(dim, index, 1))
            changed = on_device(x.clone())
            assert changed.scatter_(dim, i, source.to("mpsx")) is changed
            assert torch.equal(changed.cpu(), expected)


@pytest.mark.parametrize("dtype", DTYPES["REAL"], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_add(layout: str, dtype: torch.dtype) -> None:
    x = make(layout, dtype).round()
    for dim in range(-x.dim(), x.dim()):
        for smaller in (False, True):
            index, source = index_and_source(x, dim, smaller)
            expected = x.scatter_add(dim, index, source)
            i, s = index.to("mpsx"), source.to("mpsx")
            assert torch.equal(on_device(x).scatter_add(dim, i, s).cpu(), expected)
            assert torch.equal(on_device(x).scatter(dim, i, s, reduce="add").cpu(), expected)
            assert torch.equal(on_device(x.clone()).scatter_add_(dim, i, s).cpu(), expected)
            product = x.scatter(dim, index, 2, reduce="multiply")
            assert torch.equal(on_device(x).scatter(dim, i, 2, reduce="multiply").cpu(), product)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_reduce(reduce: str, include_self: bool) -> None:
    for dtype in DTYPES["REAL"]:
        x = make("transposed", dtype).round()
        for dim in range(3):
            index, source = index_and_source(x, dim)
            arguments = {"reduce": reduce, "include_self": include_self}
            expected = x.scatter_reduce(dim, index, source, **arguments)
            result = on_device(x).scatter_reduce(dim, index.to("mpsx"), source.to("mpsx"), **arguments)
            assert torch.equal(result.cpu(), expected)


def test_sums_are_rounded_once() -> None:
    index = torch.zeros(5000, dtype=torch.long)
    for dtype in (torch.float16, torch.bfloat16):
        source = torch.rand(5000).to(dtype)
        result = torch.zeros(1, dtype=dtype, device="mpsx").scatter_add(0, index.to("mpsx"), source.to("mpsx"))
        torch.testing.assert_close(result.cpu(), source.double().sum().view(1).to(dtype))


def test_scalars_and_empties() -> None:
    x, index = torch.tensor(1.0), torch.tensor(0)
    assert x.to("mpsx").scatter_add(0, index.to("mpsx"), torch.tensor(2.0, device="mpsx")).item() == 3
    y = torch.randn(3, 4)
    none = torch.zeros(0, dtype=torch.long, device="mpsx")
    assert torch.equal(y.to("mpsx").scatter_add(0, none, torch.zeros(0, device="mpsx")).cpu(), y)


def test_gradient() -> None:
    x, index, source = torch.randn(6, 9), torch.randint(0, 9, (6, 20)), torch.randn(6, 20)
    weight = torch.randn(6, 9)
    a, sa = x.clone().requires_grad_(), source.clone().requires_grad_()
    b, sb = x.to("mpsx").requires_grad_(), source.to("mpsx").requires_grad_()
    a.scatter_add(1, index, sa).backward(weight)
    b.scatter_add(1, index.to("mpsx"), sb).backward(weight.to("mpsx"))
    assert torch.equal(b.grad.cpu(), a.grad) and torch.equal(sb.grad.cpu(), sa.grad)


@pytest.mark.parametrize("bad", [5, -1])
def test_out_of_range(bad: int) -> None:
    x = torch.zeros(5, 3, device="mpsx")
    index = torch.tensor([[0, bad, 1]], device="mpsx")
    for call in (lambda: x.scatter(0, index, 1.0), lambda: x.scatter_add_(0, index, torch.ones(1, 3, device="mpsx"))):
        with raises_after_sync(RuntimeError, match=f"index {bad} is out of bounds for dimension 0 with size 5"):
            call()
    assert errors_are_deferred() or not x.cpu().any()  # the error is raised before the kernel writes


def test_error_messages_match_the_cpu() -> None:
    def scatter(d: str, source: torch.Tensor) -> torch.Tensor:
        index = torch.zeros(2, 2, dtype=torch.long, device=d)
        return torch.zeros(4, 3, device=d).scatter(0, index, source.to(d))

    for source in (torch.zeros(1, 2), torch.zeros(2, 2, dtype=torch.half), torch.zeros(2)):
        cpu, device = error_messages(lambda d, source=source: scatter(d, source))
        assert device == cpu


def test_kernels_run() -> None:
    x = torch.zeros(4, 3, device="mpsx")
    index = torch.zeros(2, 3, dtype=torch.long, device="mpsx")
    with mpsx.profiler.launch_log() as log:
        x.scatter_add(0, index, torch.ones(2, 3, device="mpsx"))
        x.scatter(0, index, 2.0)
    assert "kernel:scatter_add_f32" in log and "kernel:scatter_fill_i32" in log
