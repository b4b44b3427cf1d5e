"""Compare integer division with Python's. The CPU drivers compute exact results in floating point."""

import math

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")

TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def operands(dtype: torch.dtype) -> tuple[list[int], list[int]]:
    """Return values near the limits of the dtype and of float precision, multiples of each other, and random values."""
    info = torch.iinfo(dtype)
    powers = [2**k + d for k in range(0, info.bits, 1 if info.bits < 64 else 3) for d in (-1, 0, 1)]
    powers += [2**k + d for k in (24, 52, 53, 54, 61, 62) for d in (-1, 0, 1)]
    ends = [info.max, info.max - 1, info.max // 2, info.max // 3 + 1, info.min, info.min + 1, info.min // 2]
    values = sorted({s * p for s in (1, -1) for p in powers} | set(ends))
    values = [v for v in values if info.min <= v <= info.max]
    pairs = [(a, b) for a in values for b in values if b != 0]
    generator = torch.Generator().manual_seed(0)
    wide = torch.randint(-(2**63), 2**63 - 1, (4000,), generator=generator, dtype=torch.int64).tolist()
    shift = torch.randint(0, 63, (4000,), generator=generator).tolist()
    random = [v >> s for v, s in zip(wide, shift, strict=True)]
    random = [v for v in random if info.min <= v <= info.max]
    pairs += [(a, b) for a, b in zip(random, random[::-1], strict=True) if b != 0]
    pairs += [(a // b * b + d, b) for a, b in pairs for d in (-1, 0) if info.min <= a // b * b + d <= info.max]
    return [a for a, _ in pairs], [b for _, b in pairs]


def truncated(a: int, b: int) -> int:
    """Return the quotient rounded toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def wrapped(values: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Convert Python integers to a tensor, wrapping around on overflow."""
    return torch.tensor([(v + 2**63) % 2**64 - 2**63 for v in values], dtype=torch.int64).to(dtype)


OPERATORS = {
    "floor_divide": (torch.floor_divide, lambda a, b: a // b),
    "div_trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), truncated),
    "remainder": (torch.remainder, lambda a, b: a % b),
    "fmod": (torch.fmod, lambda a, b: int(math.copysign(1, a)) * (abs(a) % abs(b))),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_all_variants_are_exact(name: str, dtype: torch.dtype) -> None:
    """Use dense operands, strided operands and scalars. The CPU cannot be the reference, because it crashes on INT_MIN
    / -1."""
    function, exact = OPERATORS[name]
    first, second = operands(dtype)
    a, b = wrapped(first, dtype), wrapped(second, dtype)
    expected = wrapped([exact(x, y) for x, y in zip(first, second, strict=True)], dtype)
    x, y = a.to("mpsx"), b.to("mpsx")
    assert torch.equal(function(x, y).cpu(), expected)
    assert torch.equal(function(x[::2], y[::2]).cpu(), expected[::2])
    rows = torch.stack([x, x]), y[None]
    assert torch.equal(function(*rows)[1].cpu(), expected)
    for divisor in {second[0], second[-1], 7, 1 if dtype is torch.uint8 else -1}:
        expected = wrapped([exact(x, divisor) for x in first], dtype)
        assert torch.equal(function(x, divisor).cpu(), expected), divisor
        assert torch.equal(function(x, torch.tensor(divisor, dtype=dtype).to("mpsx")).cpu(), expected), divisor


@pytest.mark.parametrize("count", [0, 3])
def test_negative_powers_of_integers_raise(count: int) -> None:
    x = torch.ones(count, dtype=torch.int16, device="mpsx")
    for function in (torch.pow, torch.Tensor.pow_):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
            function(x, -1)
