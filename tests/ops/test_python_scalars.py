"""If a tensor's dtype cannot represent a Python scalar, mpsx gives the same result or error as the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("silent_fallback")

DTYPES = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.float32, torch.float16,
    torch.bfloat16,
)  # fmt: skip
SCALARS = (
    300, -1, -200, 70000, 2**40, -(2**40), 2**63 - 1, 1e5, 1e39, math.inf, -math.inf, math.nan, 2.75, -2.75, True,
    1 + 2j, 0,
)  # fmt: skip


def written(x: torch.Tensor, where: object, v: object) -> torch.Tensor:
    """Return a copy of x with x[where] = v."""
    x = x.clone()
    x[where] = v
    return x


OPERATORS: dict[str, Callable[[torch.Tensor, object], torch.Tensor]] = {
    "fill_": lambda x, v: x.clone().fill_(v),
    "full_like": torch.full_like,
    "full": lambda x, v: torch.full((3,), v, dtype=x.dtype, device=x.device),
    "setitem": lambda x, v: written(x, 0, v),
    "setitem of a slice": lambda x, v: written(x, slice(0, 2), v),
    "setitem of a mask": lambda x, v: written(x, x > 0, v),
    "masked_fill": lambda x, v: x.masked_fill(x > 0, v),
    "masked_fill_": lambda x, v: x.clone().masked_fill_(x > 0, v),
    "masked_fill by a tensor": lambda x, v: x.masked_fill(x > 0, torch.tensor(v, device=x.device)),
    "where": lambda x, v: torch.where(x > 0, x, v),
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "add": lambda x, v: x + v,
    "add_": lambda x, v: x.clone().add_(v),
    "add with alpha": lambda x, v: torch.add(x, x, alpha=v),
    "sub": lambda x, v: x - v,
    "sub of tensors": lambda x, v: x - torch.tensor([v, v, v], device=x.device),
    "sub_": lambda x, v: x.clone().sub_(v),
    "rsub": lambda x, v: v - x,
    "mul": lambda x, v: x * v,
    "mul_": lambda x, v: x.clone().mul_(v),
    "div": lambda x, v: x / v,
    "floor_divide": lambda x, v: x // v,
    "remainder": lambda x, v: x % v,
    "fmod": torch.fmod,
    "remainder of a number": lambda x, v: torch.remainder(v, x + 1),
    "pow": lambda x, v: x**v,
    "pow of a number": lambda x, v: v**x,
    "eq": lambda x, v: x == v,
    "lt": lambda x, v: x < v,
    "clamp": lambda x, v: x.clamp(v),
    "clamp_max": lambda x, v: x.clamp(max=v),
    "clamp between": lambda x, v: x.clamp(0, v),
    "clamp_": lambda x, v: x.clone().clamp_(0, v),
    "and": lambda x, v: x & v,
    "xor_": lambda x, v: x.clone().bitwise_xor_(v),
    "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "lerp": lambda x, v: torch.lerp(x, x, v),
    "foreach_add": lambda x, v: torch._foreach_add([x], v)[0],
    "foreach_mul": lambda x, v: torch._foreach_mul([x, x], v)[1],
    "arange": lambda x, v: torch.arange(0, v, max(abs(v) / 4, 1), dtype=x.dtype, device=x.device),
    "linspace": lambda x, v: torch.linspace(0, v, 4, dtype=x.dtype, device=x.device),
}


def outcome(function: Callable[..., torch.Tensor], x: torch.Tensor, v: object) -> torch.Tensor | None:
    """Return the result, or None if the call raises an error."""
    try:
        return function(x, v).cpu()
    except (RuntimeError, ValueError, TypeError, OverflowError, NotImplementedError):
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_scalars(name: str) -> None:
    for dtype in DTYPES:
        x = torch.tensor([0, 1, 3]).to(dtype)
        for v in SCALARS:
            is_nan = isinstance(v, float) and math.isnan(v)
            if is_nan and name in ("clamp", "clamp_max") and torch.__version__ < "2.13":
                continue  # before 2.13, the CPU ignores NaN bounds
            want, got = outcome(OPERATORS[name], x, v), outcome(OPERATORS[name], x.to("mpsx"), v)
            message = f"{name} of {dtype} and {v}: {want}, on mpsx {got}"
            assert (got is None) == (want is None), message
            if want is not None:
                torch.testing.assert_close(got, want, equal_nan=True, msg=message)


def test_arange_of_integers_uses_integer_arithmetic() -> None:
    for dtype in (torch.int64, torch.int32, torch.uint8):
        for start, end, step in ((0, 5.5, 1.5), (0.5, 7, 2), (0.9, 9.9, 3.9), (10, 0.5, -2.5), (0, 3, 0.5)):
            if dtype == torch.int64 and abs(step) < 1 and torch.__version__ < "2.14":
                continue  # before 2.14, an int64 step is truncated to 0, which is an error
            want = torch.arange(start, end, step, dtype=dtype)
            got = torch.arange(start, end, step, dtype=dtype, device="mpsx")
            assert torch.equal(got.cpu(), want)
        with pytest.raises(RuntimeError, match="step must be nonzero"):
            torch.arange(0, 3, 0, dtype=dtype, device="mpsx")
    if torch.__version__ < "2.14":
        with pytest.raises(ValueError, match="step must be nonzero"):
            torch.arange(0, 3, 0.5, dtype=torch.int64, device="mpsx")


def test_any_and_all_over_no_dimensions() -> None:
    """The result must be a new bool tensor rather than the input."""
    for dtype in DTYPES:
        x = torch.tensor([0, 5, 1]).to(dtype)
        for operator in (torch.ops.aten.any.dims, torch.ops.aten.all.dims):
            d = x.to("mpsx")
            got, want = operator(d, []), operator(x, [])
            assert got.dtype == want.dtype
            assert torch.equal(got.cpu(), want)
            assert got.data_ptr() != d.data_ptr()


def test_zerotensors() -> None:
    """ZeroTensors have no storage. They are common in forward-mode derivatives."""
    zeros, x = torch._efficientzerotensor((2, 3), device="mpsx"), torch.ones(2, 3, device="mpsx")
    assert torch.equal(x.clone().copy_(zeros).cpu(), torch.zeros(2, 3))
    assert torch.equal(zeros.clone().cpu(), torch.zeros(2, 3))
    assert torch.equal(torch.ones(2, 3).copy_(zeros), torch.zeros(2, 3))
    assert torch.equal((x + zeros).cpu(), torch.ones(2, 3))
    assert torch.equal(zeros.t().contiguous().cpu(), torch.zeros(3, 2))
    assert zeros.sum().item() == 0
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        zeros.copy_(x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(torch.sgn(dual)).tangent.cpu(), torch.zeros(2, 3))
