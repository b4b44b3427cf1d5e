"""Scan values whose partial sums or products overflow float32 in some subranges, but not in a sequential scan."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.usefixtures("only_kernels")

SHAPES = (((3, 5), 1), ((2, 3000), 1), ((1, 50000), 1), ((3000, 2), 0), ((2, 300, 40), 1))


def near_limit(dtype: torch.dtype, shape: tuple[int, ...], dim: int) -> torch.Tensor:
    """Return values with finite sequential sums. The sums of some subranges overflow."""
    top = torch.finfo(dtype).max
    steps = torch.tensor([0.9, -0.5, 0.5, -0.9, -0.9, 0.4, -0.4, 0.9]) * top
    line = torch.arange(shape[dim])
    return steps[line * 5 // 3 % 8].view([-1 if d == dim else 1 for d in range(len(shape))]).expand(shape).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_cumsum_beyond_the_limit(dtype: torch.dtype, shape: tuple[int, ...], dim: int) -> None:
    x = near_limit(dtype, shape, dim)
    result, exact = x.to("mpsx").cumsum(dim).cpu(), x.double().cumsum(dim)
    assert not result.isnan().any()
    tolerance = torch.finfo(dtype).eps * torch.finfo(dtype).max
    if dtype == torch.float32:  # the kernel rounds the sum of each block of 8 terms to float32
        atol = tolerance * max(1, shape[dim] / 8)
        torch.testing.assert_close(result.double(), exact.to(dtype).double(), rtol=1e-6, atol=atol)
    else:  # the CPU's float32 sums stay infinite after the first overflow
        cpu = x.cumsum(dim)
        agrees = (result == cpu) | ((result.double() - exact.to(dtype).double()).abs() <= 64 * tolerance)
        assert (agrees | (result == exact.to(dtype))).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_cumprod_of_large_and_small(dtype: torch.dtype, shape: tuple[int, ...], dim: int) -> None:
    """Products of powers of two are exact. Sequential products stay within the range of float64, but not of float32."""
    top = {torch.float32: 100, torch.bfloat16: 100, torch.float16: 12}[dtype]
    exponents = torch.tensor([top, -top, -top, top, top, -top, top, 3 - top, -3, 0])
    line = exponents[torch.arange(shape[dim]) % 10].view([-1 if d == dim else 1 for d in range(len(shape))])
    x = torch.exp2(line.double()).expand(shape).to(dtype)
    torch.testing.assert_close(x.to("mpsx").cumprod(dim).cpu(), x.double().cumprod(dim).to(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan"), 0.0])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_special_values_stay(name: str, value: float, dtype: torch.dtype) -> None:
    for shape, dim in SHAPES:
        x = (1 + 0.01 * torch.randn(shape, generator=torch.Generator().manual_seed(0))).to(dtype)
        x.select(dim, shape[dim] // 2).fill_(value)
        result, expected = (getattr(torch, name)(t, dim) for t in (x.to("mpsx"), x))
        if name.startswith("cumm"):
            result, expected = result.values, expected.values
        result = result.cpu()
        assert torch.equal(result.isnan(), expected.isnan())
        assert torch.equal(result.isposinf(), expected.isposinf())
        assert torch.equal(result.isneginf(), expected.isneginf())
