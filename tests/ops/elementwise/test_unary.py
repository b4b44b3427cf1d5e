"""Every operator in metal/elementwise/unary.def: values, layouts, out= and in-place forms, accuracy, gradients."""

from __future__ import annotations

import re

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import DTYPES, FLOAT, TAGS, rows

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

ROWS = rows("elementwise/unary.def", "MPSX_UNARY", 3)
NAMES = [row[0] for row in ROWS]
# Domains of operators that are not defined for all x.
DOMAIN = {
    "sqrt": (0, 9),
    "rsqrt": (0.1, 9),
    "log": (0.01, 9),
    "log2": (0.01, 9),
    "log10": (0.01, 9),
    "log1p": (-0.9, 9),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atanh": (-0.99, 0.99),
    "acosh": (1, 9),
}
# Error bounds relative to float64, in float32 ULPs. The CPU's errors are between 1 and 4 ULPs.
ULPS = {
    "erfc": 8,
    "tan": 4,
    "sinh": 4,
    "cosh": 4,
    "tanh": 4,
    "asinh": 4,
    "acosh": 4,
    "atanh": 4,
    "expm1": 3,
    "log1p": 4,
}


def apply(name: str, x: torch.Tensor) -> torch.Tensor:
    return getattr(torch, name)(x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "types"), [(row[0], row[1]) for row in ROWS])
def test_values(name: str, types: str, layout: str) -> None:
    low, high = DOMAIN.get(name, (-3, 3))
    dtypes = DTYPES["ALL"] if types == "FLOAT" else DTYPES[types]
    for dtype in dtypes:
        x = make(layout, dtype, low=low, high=high)
        try:
            expected = apply(name, x)
        except RuntimeError:  # without CPU support for this dtype, there is no reference
            continue
        result = apply(name, on_device(x))
        assert result.device.type == "mpsx"
        assert result.dtype == expected.dtype
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result.cpu(), expected, equal_nan=True)


@pytest.mark.parametrize(("name", "types"), [(row[0], row[1]) for row in ROWS])
def test_out_and_in_place(name: str, types: str) -> None:
    low, high = DOMAIN.get(name, (-3, 3))
    x = make("slice", DTYPES[types][0], low=low, high=high)
    expected = apply(name, x)
    device = on_device(x)
    if hasattr(torch.Tensor, f"{name}_"):
        target = on_device(x)
        result = getattr(target, f"{name}_")()
        assert result is target
        torch.testing.assert_close(target.cpu(), getattr(x.clone(), f"{name}_")(), equal_nan=True)
    if name in ("isnan", "relu"):
        return  # PyTorch has no out= variant
    out = torch.empty(0, dtype=expected.dtype, device="mpsx")
    assert getattr(torch, name)(device, out=out) is out
    torch.testing.assert_close(out.cpu(), expected, equal_nan=True)
    strided = torch.empty(expected.shape[::-1], dtype=expected.dtype, device="mpsx").permute(2, 1, 0)
    getattr(torch, name)(device, out=strided)
    torch.testing.assert_close(strided.cpu(), expected, equal_nan=True)
    if expected.dtype == torch.float32:
        wide = torch.empty(expected.shape, dtype=torch.float64, device="mpsx")
        try:
            getattr(torch, name)(x, out=wide.cpu())
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=re.escape(str(error))):
                getattr(torch, name)(device, out=wide)
            return
        with mpsx.fallback.using_mode("silent"):  # float64 has no kernel, so a float64 out= tensor causes a fallback
            getattr(torch, name)(device, out=wide)
            torch.testing.assert_close(wide.cpu().float(), expected, equal_nan=True)


@pytest.mark.parametrize("name", [row[0] for row in ROWS if row[1] == "FLOAT"])
def test_accuracy(name: str) -> None:
    low, high = DOMAIN.get(name, (-10, 10))
    x = torch.linspace(low, high, 20011)
    exact = apply(name, x.double())
    error = (apply(name, x.to("mpsx")).cpu().double() - exact).abs()
    ulp = torch.finfo(torch.float32).eps * 2.0 ** torch.floor(torch.log2(exact.abs().clamp_min(1e-30)))
    ulp = ulp.clamp_min(torch.finfo(torch.float32).tiny)
    # Near the function's zeros, rounding of the argument dominates the error.
    slack = torch.finfo(torch.float32).eps * 1e-3
    worst = ((error - slack) / ulp).max().item()
    assert worst <= ULPS.get(name, 2.5), f"{name}: {worst:.2f} ulp"


@pytest.mark.parametrize("name", [row[0] for row in ROWS if row[1] in ("FLOAT", "REAL")])
def test_special_values(name: str) -> None:
    infinity = float("inf")
    special = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, infinity, -infinity, float("nan"), 1e-40, -1e-40, 3e38, -3e38, 0.5, 1.5]
    )
    expected, result = apply(name, special), apply(name, special.to("mpsx")).cpu()
    torch.testing.assert_close(result, expected, equal_nan=True, atol=2e-38, rtol=2e-6)
    if expected.is_floating_point():
        finite = ~expected.isnan()
        assert torch.equal(torch.signbit(result)[finite], torch.signbit(expected)[finite])


@pytest.mark.parametrize("name", [row[0] for row in ROWS if row[2] == "SAME" and row[1] in ("FLOAT", "REAL")])
def test_gradient(name: str) -> None:
    low, high = DOMAIN.get(name, (-3, 3))
    x = make("transposed", torch.float32, low=low + 1e-3, high=high - 1e-3)
    a = x.clone().requires_grad_()
    b = on_device(x).detach().requires_grad_()
    apply(name, a).backward(torch.ones_like(x))
    apply(name, b).backward(torch.ones_like(b))
    torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_kernel_ran(name: str) -> None:
    types = next(row[1] for row in ROWS if row[0] == name)
    x = make("contiguous", DTYPES[types][0], low=0.1, high=0.9).to("mpsx")
    with mpsx.profiler.launch_log() as log:
        apply(name, x)
    assert log == [f"kernel:{name}_dense_{TAGS[x.dtype]}"]


@pytest.mark.parametrize("dtype", FLOAT)
def test_large(dtype: torch.dtype) -> None:
    x = torch.randn(3_000_001, dtype=torch.float32).to(dtype)
    torch.testing.assert_close(torch.exp(x.to("mpsx")).cpu(), torch.exp(x))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles(name: str) -> None:
    """Blocks of large angles and blocks of small angles use different code paths. Zeros must keep their sign."""
    bits = torch.arange(0, 0x7F800000, 104_729, dtype=torch.int32)
    every = bits.view(torch.float32)
    angles = torch.linspace(-100, 100, 5001)
    angles[[3, 1500, 5000]] = torch.tensor([1e30, -7e4, 3e8])
    for x in (every, -every, angles, torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")])):
        result, exact = apply(name, x.to("mpsx")).cpu(), apply(name, x.double())
        torch.testing.assert_close(result, exact.float(), rtol=5e-7, atol=0, equal_nan=True)
        assert torch.equal(result.signbit() | exact.isnan(), exact.signbit() | exact.isnan())
        for dtype in (torch.float16, torch.bfloat16):
            few = x.to(dtype)
            result = apply(name, few.to("mpsx")).cpu()
            torch.testing.assert_close(result, apply(name, few.double()).to(dtype), equal_nan=True)


def test_error_names_the_dtypes() -> None:
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.exp(torch.ones(3, device="mpsx"), out=torch.empty(3, dtype=torch.int64, device="mpsx"))
