"""Indexing with tensors: reading, writing and accumulating."""

from __future__ import annotations

import pytest
import torch
from deferred_errors import errors_are_deferred, raises_after_sync
from error_messages import error_messages
from layouts import make, on_device
from tables import DTYPES

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

LAYOUTS = ("contiguous", "transposed", "slice", "step", "expanded")


def keys(x: torch.Tensor) -> dict[str, tuple]:
    """Return indices for a 3-D tensor. PyTorch converts slices and None to views, so the device only receives
    tensors."""
    a, b, c = x.shape
    i, j, k = torch.randint(-a, a, (6,)), torch.randint(-b, b, (6,)), torch.randint(-c, c, (6,))
    return {
        "first": (i,),
        "middle": (slice(None), j),
        "last": (slice(None), slice(None), k),
        "matrix": (torch.randint(0, a, (2, 3)),),
        "scalar": (torch.tensor(1),),
        "pair": (i, j),
        "inner pair": (slice(None), j, k),
        "all": (i, j, k),
        "split": (i, slice(None), k),
        "broadcast": (i[:, None], j[None, :4]),
        "broadcast to three": (i[:2, None, None], j[None, :3, None], k[None, None, :4]),
        "int32": (i.int(), j.int()),
        "mask": (x != 0,),
        "leading mask": (torch.rand(a, b) < 0.5,),
        "row mask": (torch.rand(a) < 0.5,),
        "inner mask": (slice(None), torch.rand(b, c) < 0.5),
        "mask and index": (torch.arange(a) < 2, slice(None), torch.tensor(1)),
        "nothing": (i[:0],),
        "slice and index": (slice(1, 4), j),
        "none": (i, None, slice(None)),
        "number": (1, j, slice(None)),
    }


def to_device(key: tuple) -> tuple:
    return tuple(part.to("mpsx") if isinstance(part, torch.Tensor) else part for part in key)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", keys(torch.zeros(5, 7, 9)))
def test_read(name: str, layout: str) -> None:
    for dtype in DTYPES["ALL"] + (torch.float64,):
        x = make(layout, dtype)
        key = keys(x)[name]
        assert torch.equal(on_device(x)[to_device(key)].cpu(), x[key])


@pytest.mark.parametrize("layout", LAYOUTS[:-1])
@pytest.mark.parametrize("name", keys(torch.zeros(5, 7, 9)))
def test_write(name: str, layout: str) -> None:
    for dtype in DTYPES["ALL"]:
        x = make(layout, dtype)
        key = keys(x)[name]
        y = on_device(x.clone())
        expected = x.clone()
        # Derive each value from its position, because repeated writes have no defined order.
        positions = torch.arange(x.numel()).view(x.shape)[key]
        values = (positions % 2 == 0) if dtype == torch.bool else (positions % 100).to(dtype)
        expected[key] = values
        y[to_device(key)] = values.to("mpsx")
        assert torch.equal(y.cpu(), expected)
        expected[key] = 1
        y[to_device(key)] = 1
        assert torch.equal(y.cpu(), expected)


@pytest.mark.parametrize("layout", LAYOUTS[:-1])
@pytest.mark.parametrize("name", keys(torch.zeros(5, 7, 9)))
def test_accumulate(name: str, layout: str) -> None:
    for dtype in DTYPES["ALL"]:
        x = make(layout, dtype)
        x = x.round() if dtype.is_floating_point else x
        key = [part for part in keys(x)[name] if isinstance(part, torch.Tensor)]
        if len(key) != len(keys(x)[name]):
            continue  # index_put accepts only tensors. test_write covers slices
        values = torch.randint(0, 2, x[tuple(key)].shape).to(dtype)  # sums of these integers are exact
        expected = x.clone().index_put_(key, values, accumulate=True)
        result = on_device(x.clone()).index_put_(to_device(tuple(key)), values.to("mpsx"), accumulate=True)
        assert torch.equal(result.cpu(), expected)


def test_gradient() -> None:
    x = torch.randn(5, 7, 9)
    for key in keys(x).values():
        a, b = x.clone().requires_grad_(), x.to("mpsx").requires_grad_()
        expected = a[key]
        weight = torch.randn(expected.shape)
        expected.backward(weight)
        b[to_device(key)].backward(weight.to("mpsx"))
        torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_sums_are_rounded_once() -> None:
    index = torch.zeros(3000, dtype=torch.long)
    for dtype in (torch.float16, torch.bfloat16):
        values = torch.rand(3000).to(dtype)
        result = torch.zeros(2, dtype=dtype, device="mpsx")
        result.index_put_((index.to("mpsx"),), values.to("mpsx"), accumulate=True)
        torch.testing.assert_close(result[0].cpu(), values.double().sum().to(dtype))


def test_last_value_wins_in_deterministic_mode() -> None:
    index, values = torch.randint(0, 50, (20_000,)), torch.arange(20_000.0)
    expected = torch.zeros(50).scatter(0, index, values)
    torch.use_deterministic_algorithms(True)
    try:
        result = torch.zeros(50, device="mpsx")
        result[index.to("mpsx")] = values.to("mpsx")
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(result.cpu(), expected)


def test_many_dimensions() -> None:
    x = torch.randn(2, 3, 4, 2, 3, 4)
    for key in (
        (torch.tensor([0, 1, 1]), slice(None), torch.tensor([3, 0, 1])),
        (slice(None), slice(None), torch.tensor([[3], [0]]), torch.tensor([0, 1]), torch.tensor([2, 2])),
    ):
        assert torch.equal(x.to("mpsx")[to_device(key)].cpu(), x[key])


def test_index_on_the_cpu() -> None:
    x = torch.randn(5, 3)
    index = torch.tensor([4, 0])
    assert torch.equal(x.to("mpsx")[index].cpu(), x[index])
    assert torch.equal(x.to("mpsx")[torch.tensor([True, False, True, True, False])].cpu(), x[[0, 2, 3]])


@pytest.mark.parametrize("bad", [5, -6])
def test_out_of_range(bad: int) -> None:
    x = torch.zeros(5, 3, device="mpsx")
    index, other = torch.tensor([0, bad], device="mpsx"), torch.tensor([0, 1], device="mpsx")
    message = f"index {bad} is out of bounds for dimension 0 with size 5"
    with raises_after_sync(IndexError, match=message):
        x[index]
    with raises_after_sync(IndexError, match=message):
        x[index, other]
    with raises_after_sync(IndexError, match=message):
        x[index] = 1
    with raises_after_sync(IndexError, match=message):
        x.index_put_((index,), torch.ones(2, 3, device="mpsx"), accumulate=True)
    assert errors_are_deferred() or not x.cpu().any()
    with raises_after_sync(IndexError, match="index is out of bounds for dimension with size 0"):
        torch.zeros(0, 3, device="mpsx")[torch.tensor([0], device="mpsx")]


def test_error_messages_match_the_cpu() -> None:
    def call(device: str, which: int) -> None:
        x = torch.zeros(4, 5, device=device)
        two, three = torch.tensor([0, 1], device=device), torch.tensor([0, 1, 2], device=device)
        if which == 0:
            x[two, three]
        elif which == 1:
            x[torch.tensor([True], device=device)]
        elif which == 2:
            x.index_put_((two,), torch.zeros(3, 5, device=device))
        elif which == 3:
            x.index_put_((two,), torch.zeros(2, 5, device=device, dtype=torch.half))
        else:
            x[torch.zeros(2, device=device)]

    for which in range(5):
        cpu, mpsx_message = error_messages(lambda d, which=which: call(d, which))
        assert mpsx_message == cpu


def test_kernels_run() -> None:
    x, index = torch.zeros(4, 3, device="mpsx"), torch.tensor([1, 1], device="mpsx")
    with mpsx.profiler.launch_log() as log:
        x[index]
        x[index, index]
        x[index] = x[:2].clone()
        y = torch.zeros(4, 3000, device="mpsx", dtype=torch.half)
        y.index_put_((index,), y[:2].clone(), accumulate=True)
    for kernel in ("index_rows_i32", "index_position", "index_elements_i32", "index_put_rows_i32", "segment_sum_f16"):
        assert f"kernel:{kernel}" in log
