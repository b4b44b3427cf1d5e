"""index_add, index_copy and index_fill."""

from __future__ import annotations

import pytest
import torch
from deferred_errors import raises_after_sync
from error_messages import error_messages
from layouts import make, on_device
from tables import DTYPES

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

LAYOUTS = ("contiguous", "transposed", "slice", "step", "channels_last")


@pytest.mark.parametrize("dtype", DTYPES["ALL"], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(layout: str, dtype: torch.dtype) -> None:
    x = make(layout, dtype)
    x = x.round() if dtype.is_floating_point else x
    for dim in range(-x.dim(), x.dim()):
        shape = list(x.shape)
        shape[dim] = 12
        index = torch.randint(0, x.size(dim), (12,))
        source = torch.randint(0, 2 if dtype == torch.bool else 4, shape).to(dtype)
        i, s = index.to("mpsx"), source.to("mpsx")
        assert torch.equal(on_device(x).index_add(dim, i, s).cpu(), x.index_add(dim, index, source))
        assert torch.equal(on_device(x.clone()).index_add_(dim, i.int(), s).cpu(), x.index_add(dim, index, source))
        if dtype != torch.bool:
            expected = x.index_add(dim, index, source, alpha=2)
            assert torch.equal(on_device(x).index_add(dim, i, s, alpha=2).cpu(), expected)
        assert torch.equal(on_device(x).index_copy(dim, i, s).cpu(), x.index_copy(dim, index, source))
        any_sign = torch.randint(-x.size(dim), x.size(dim), (5,))
        assert torch.equal(on_device(x).index_fill(dim, any_sign.to("mpsx"), 1).cpu(), x.index_fill(dim, any_sign, 1))
        value = torch.tensor(1, dtype=dtype)
        filled = on_device(x).index_fill(dim, any_sign.to("mpsx"), value.to("mpsx"))
        assert torch.equal(filled.cpu(), x.index_fill(dim, any_sign, value))


def test_scalars() -> None:
    x, index = torch.tensor(1.0, device="mpsx"), torch.tensor([0], device="mpsx")
    assert x.index_add(0, index, torch.tensor(2.0, device="mpsx")).item() == 3
    assert x.index_copy(0, index, torch.tensor([2.0], device="mpsx")).item() == 2
    assert x.index_fill(0, index, 4.0).item() == 4
    assert x.index_fill(-1, index.expand(2), 4.0).item() == x.index_fill(0, index.expand(2), x * 4).item() == 4
    assert x.index_fill(0, index[:0], 4.0).item() == 1
    position, value = torch.tensor(1, device="mpsx"), torch.tensor(5.0, device="mpsx")
    assert torch.zeros(3, device="mpsx").index_copy(0, position, value).tolist() == [0, 5, 0]


def test_sums_are_rounded_once() -> None:
    index = torch.zeros(3000, dtype=torch.long)
    for dtype in (torch.float16, torch.bfloat16):
        source = torch.rand(3000, 5).to(dtype)
        result = torch.zeros(2, 5, dtype=dtype, device="mpsx").index_add(0, index.to("mpsx"), source.to("mpsx"))
        torch.testing.assert_close(result[0].cpu(), source.double().sum(0).to(dtype))


def test_gradient_of_index_select() -> None:
    x, index, weight = torch.randn(7, 5), torch.randint(0, 7, (30,)), torch.randn(30, 5)
    a, b = x.clone().requires_grad_(), x.to("mpsx").requires_grad_()
    a.index_select(0, index).backward(weight)
    b.index_select(0, index.to("mpsx")).backward(weight.to("mpsx"))
    torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_out_of_range() -> None:
    x = torch.zeros(5, 3, device="mpsx")
    one = torch.ones(1, 3, device="mpsx")
    for bad in (5, -6):
        index = torch.tensor([bad], device="mpsx")
        for error, call in (
            (RuntimeError, lambda i=index: x.index_add(0, i, one)),
            (IndexError, lambda i=index: x.index_copy(0, i, one)),
            (IndexError, lambda i=index: x.index_fill(0, i, 1.0)),
        ):
            with raises_after_sync(error, match=f"index {bad} is out of bounds for dimension 0 with size 5"):
                call()


def test_error_messages_match_the_cpu() -> None:
    def call(device: str, which: int) -> None:
        x, index = torch.zeros(4, 3, device=device), torch.tensor([1], device=device)
        if which == 0:
            x.index_add(0, index, torch.zeros(1, 2, device=device))
        elif which == 1:
            x.index_add(0, index, torch.zeros(1, 3, dtype=torch.half, device=device))
        elif which == 2:
            x.index_copy(0, index, torch.zeros(3, device=device))
        elif which == 3:
            x.index_fill(0, index.int(), 1.0)
        else:
            x.index_fill(0, index, torch.zeros(1, device=device))

    for which in range(5):
        cpu, mpsx_message = error_messages(lambda d, which=which: call(d, which))
        assert mpsx_message == cpu


def test_kernels_run() -> None:
    x, index = torch.zeros(4, 3000, device="mpsx"), torch.tensor([1], device="mpsx")
    with mpsx.profiler.launch_log() as log:
        x.index_add(0, index, x[:1])
        x.half().index_add(0, index, x[:1].half())
        x.index_copy(0, index, x[:1])
    vectors = mpsx._runtime.driver()["simd_width"] > 1  # GPUs use segmented sums
    for kernel in ("segment_sum_f32" if vectors else "scatter_add_f32", "segment_sum_f16", "scatter_set_i32"):
        assert f"kernel:{kernel}" in log
