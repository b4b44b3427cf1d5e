"""cat and stack."""

from __future__ import annotations

import itertools

import pytest
import torch
from error_messages import error_messages
from layouts import LAYOUTS, make, on_device
from tables import DTYPES

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


def check(tensors: list[torch.Tensor], dim: int) -> None:
    expected = torch.cat(tensors, dim)
    result = torch.cat([on_device(t) for t in tensors], dim)
    assert result.dtype == expected.dtype and result.stride() == expected.stride()
    assert torch.equal(result.cpu(), expected)


@pytest.mark.parametrize("dtype", DTYPES["ALL"] + (torch.float64, torch.complex64), ids=str)
@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "scalar"])
def test_values(layout: str, dtype: torch.dtype) -> None:
    tensors = [make(layout, dtype, seed=seed) for seed in range(3)]
    for dim in range(-tensors[0].dim(), tensors[0].dim()):
        part = tensors[1].narrow(dim, 0, tensors[1].size(dim) // 2)
        check([tensors[0], part, tensors[2]], dim)


def test_mixed_layouts() -> None:
    x = torch.randn(2, 6, 5, 7)
    transposed = x.transpose(2, 3).contiguous().transpose(2, 3)
    forms = [x, x.to(memory_format=torch.channels_last), transposed, x[:1].expand_as(x)]
    for a, b in itertools.product(forms, forms):
        for dim in range(4):
            check([a, b], dim)


def test_rows_of_larger_tensors() -> None:
    wide = torch.arange(300 * 400).view(300, 400)
    forms = [wide, wide[:, 3:-5], wide[::2].repeat(2, 1), wide[::3, 1:].contiguous()[:1].expand(300, -1)]
    forms += [wide[:, :1].expand(300, 60), wide[:, ::2], wide.view(400, 300).t(), wide[:, :3], wide[:, 5:8].clone()]
    for a, b in itertools.product(forms, forms):
        check([a, b], 1)
    check([wide.view(300, 20, 20)[:, 2:-1], wide.view(300, 20, 20)], 1)
    check([wide.view(-1)[::2], wide.view(-1)], 0)


def test_promotion() -> None:
    types = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32)
    for a, b in itertools.product(types, types):
        check([make("contiguous", a), make("transposed", b, seed=1)], 1)


def test_legacy_empties() -> None:
    x = torch.randn(3, 4)
    check([torch.empty(0), x, torch.empty(0)], 1)
    check([torch.empty(0), torch.empty(0)], 0)
    check([x[:0], x], 0)
    check([torch.empty(0), x.to(torch.int32)], 0)


def test_stack() -> None:
    tensors = [torch.randn(4, 5).t() for _ in range(3)] + [torch.randn(5, 4)]
    for dim in (0, 1, 2, -1):
        result = torch.stack([on_device(t) for t in tensors], dim)
        assert torch.equal(result.cpu(), torch.stack(tensors, dim))
    scalars = [torch.tensor(1.0), torch.tensor(2.0)]
    assert torch.equal(torch.stack([t.to("mpsx") for t in scalars]).cpu(), torch.stack(scalars))


def test_out() -> None:
    tensors = [torch.randn(2, 3), torch.randn(2, 5)]
    expected = torch.cat(tensors, 1)
    on = [t.to("mpsx") for t in tensors]
    for out in (torch.empty(2, 8), torch.empty(0), torch.empty(8, 2).t(), torch.empty(2, 16)[:, ::2]):
        result = on_device(out)
        assert torch.cat(on, 1, out=result) is result
        assert torch.equal(result.cpu(), expected)
    double = torch.empty(2, 8, dtype=torch.float16, device="mpsx")
    torch.cat(on, 1, out=double)
    assert torch.equal(double.cpu(), expected.half())


def test_gradient() -> None:
    parts = [torch.randn(2, 3), torch.randn(2, 5)]
    a = [p.clone().requires_grad_() for p in parts]
    b = [p.to("mpsx").requires_grad_() for p in parts]
    weight = torch.randn(2, 8)
    torch.cat(a, 1).backward(weight)
    torch.cat(b, 1).backward(weight.to("mpsx"))
    for x, y in zip(a, b, strict=True):
        assert torch.equal(y.grad.cpu(), x.grad)


def test_error_messages_match_the_cpu() -> None:
    cases = (lambda d: [torch.zeros(2, 3, device=d), torch.zeros(3, 3, device=d)], lambda d: [])
    for case in cases:
        cpu, device = error_messages(lambda d, case=case: torch.cat(case(d), 1))
        assert device == cpu
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([torch.zeros(2, device="mpsx"), torch.zeros(2)])


def test_one_launch_per_input() -> None:
    x = torch.randn(3, 40).to("mpsx")
    with mpsx.profiler.launch_log() as log:
        torch.cat([x, x], 1)
        torch.stack([x.half(), x.half()])
        torch.cat([x.long()] * 5)
    copies = [entry.removeprefix("kernel:copy_dense_") for entry in log if entry.startswith("kernel:copy_")]
    assert copies == ["i32"] * 2 + ["i16"] * 2 + ["i64"] * 5


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("count", [2, 3, 4, 5, 9])
def test_different_lengths(count: int, dtype: torch.dtype) -> None:
    """Concatenate inputs of different lengths, some of which are empty."""
    for size in (5, 30, 700):
        x = make("contiguous", dtype).flatten().repeat(60)[: 3 * size * 2].view(3, size, 2)
        for dim in range(3):
            pieces = [x.narrow(dim, 0, x.size(dim) * (k % 4) // 3).contiguous() for k in range(count)]
            check(pieces, dim)
            check([*pieces, torch.empty(0, dtype=dtype)], dim)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64], ids=str)
def test_short_rows(dtype: torch.dtype) -> None:
    x = make("contiguous", dtype).flatten().repeat(40)[:4000]
    for shape, dim in (((500, 1), 1), ((500, 2), 1), ((250, 1, 3), 1), ((250, 7), -1), ((2, 250, 1), 2)):
        pieces = [x[:n].view(shape) for n in [torch.Size(shape).numel()] * 2]
        check(pieces, dim)
        check([*pieces, pieces[0].narrow(dim, 0, 1)], dim)
