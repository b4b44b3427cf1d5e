"""Binary operators whose operands have different layouts. mpsx may copy one of the operands first."""

from __future__ import annotations

import pytest
import torch
from layouts import on_device
from tables import FLOAT

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("shape", [(7, 142), (142, 7), (3, 5, 31), (40, 50), (2, 130)], ids=str)
def test_small_transposed_operands(shape: tuple[int, ...]) -> None:
    """Thin and small operands are copied element by element."""
    for dtype in (*FLOAT, torch.int64, torch.uint8):
        a, reversed_shape = torch.randint(1, 9, shape).to(dtype), torch.randint(1, 9, shape[::-1]).to(dtype)
        b = reversed_shape.permute(*range(len(shape))[::-1])
        for first, second in ((a, b), (b, a)):
            for function in (torch.maximum, torch.mul, torch.lt):
                expected = function(first, second)
                result = function(on_device(first), on_device(second))
                assert torch.equal(result.cpu(), expected)
                assert result.stride() == expected.stride()


@pytest.mark.parametrize("shape", [(180, 190), (3, 130, 90), (17, 2000)], ids=str)
def test_large_transposed_operands_are_copied(shape: tuple[int, ...]) -> None:
    """Transpose each matrix in a batch, a matrix that is broadcast over a batch, one of three inputs, or the only
    input."""
    for dtype in (*FLOAT, torch.int64, torch.uint8, torch.bool):
        a = torch.randint(0, 9, shape).to(dtype)
        transposed = torch.randint(0, 9, (*shape[:-2], *shape[:-3:-1])).to(dtype)
        b, a_d = transposed.transpose(-1, -2), on_device(a)
        b_d, more, more_d = on_device(b), a.expand(2, *shape).contiguous(), a_d.expand(2, *shape).contiguous()
        for function in (torch.maximum, torch.mul, torch.lt):
            for cpu, device in (((a, b), (a_d, b_d)), ((b, more), (b_d, more_d))):
                with mpsx.profiler.launch_log() as log:
                    result = function(*device)
                assert any("copy_transposed" in kernel for kernel in log)
                assert torch.equal(result.cpu(), function(*cpu))
        for cpu, device in (((a, b), (a_d, b_d)), ((b, a), (b_d, a_d))):
            result = torch.where(a_d > 4, *device)
            assert torch.equal(result.cpu(), torch.where(a > 4, *cpu))
        out = torch.empty_like(a_d)
        assert torch.equal(torch.mul(b_d, b_d, out=out).cpu(), b * b)
        assert torch.equal(torch.sign(b_d, out=out).cpu(), torch.sign(b))
