"""complex64: every operator in complex.def, scalars, out=, special values, sums, where, and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import rows

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

UNARY = [row[0] for row in rows("elementwise/complex.def", "MPSX_COMPLEX", 2)]
BINARY = [row[0] for row in rows("elementwise/complex.def", "MPSX_COMPLEX_BINARY", 2)]
SCALAR = 2.0 - 0.5j


def numbers(layout: str, seed: int = 0) -> torch.Tensor:
    return torch.complex(make(layout, torch.float32, seed=seed), make(layout, torch.float32, seed=seed + 1))


def in_layout(layout: str, seed: int = 0) -> torch.Tensor:
    """Return random complex numbers in the given layout."""
    z = numbers(layout, seed)
    if layout == "expanded":
        return z[:, :1].contiguous().expand(z.shape)
    return make(layout, torch.complex64).copy_(z)


def close(ours: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> None:
    torch.testing.assert_close(ours.cpu(), exact.to(dtype), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, layout: str) -> None:
    function, z = getattr(torch, name), in_layout(layout)
    with mpsx.profiler.launch_log() as log:
        result = function(on_device(z))
    assert layout == "empty" or {f"kernel:{name}_dense_c64", f"kernel:{name}_strided_c64"} & set(log)
    like = function(z)
    assert result.dtype == like.dtype
    assert result.stride() == like.stride()
    close(result, function(z.to(torch.complex128)), result.dtype)
    out = torch.empty(0, dtype=result.dtype, device="mpsx")
    torch.testing.assert_close(function(on_device(z), out=out) if name != "isnan" else result, result)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, layout: str) -> None:
    function, a, b = getattr(torch, name), in_layout(layout), in_layout(layout, 5)
    wide = torch.complex128
    scalars = [] if name.startswith("log") else [(a, SCALAR), (a, 3)]  # logaddexp has no overload for scalars
    for x, y in (*scalars, (a, b), (a, b.real), (a, b[..., :1] if b.dim() else b)):
        on, exact = (on_device(y), y.to(wide)) if isinstance(y, torch.Tensor) else (y, y)
        result = function(on_device(x), on)
        assert result.stride() == function(x, y).stride()
        close(result, function(x.to(wide), exact), result.dtype)
    if name in ("add", "sub", "mul", "div"):
        close(function(on_device(b.real), on_device(a)), function(b.real.double(), a.to(wide)), a.dtype)
        if layout != "expanded":
            target = on_device(a).clone()
            getattr(target, name + "_")(on_device(b))
            close(target, function(a.to(wide), b.to(wide)), a.dtype)


def test_alpha() -> None:
    a, b = numbers("contiguous"), numbers("contiguous", 5)
    for alpha in (2, -0.5, 1 + 2j):
        close(torch.add(on_device(a), on_device(b), alpha=alpha), a + alpha * b, a.dtype)
        close(torch.rsub(on_device(a), on_device(b), alpha=alpha), b - alpha * a, a.dtype)
    with pytest.raises(RuntimeError, match="not supported for complex tensors"):
        on_device(a).abs_()


def test_powers() -> None:
    z = numbers("contiguous")
    for exponent in (0.5, 1, 2, 3, -0.5, -1, -2):
        close(on_device(z).pow(exponent), z.to(torch.complex128).pow(exponent), z.dtype)
    for exponent in (0, 1.7, -2.5 + 1j):
        close(on_device(z).pow(exponent), z.to(torch.complex128).pow(exponent), z.dtype)
        close(torch.pow(2, on_device(z)), torch.pow(2, z.to(torch.complex128)), z.dtype)
    out = torch.empty(0, dtype=torch.complex64, device="mpsx")
    close(torch.pow(on_device(z), 3, out=out), z.to(torch.complex128).pow(3), z.dtype)


def test_finite_parts_with_an_overflowing_modulus() -> None:
    z = torch.tensor([complex(88.9, 1.5), complex(89.3, 3.1), complex(89.3, 0.3), complex(100, 0.1)])
    for x in (z, z.conj_physical()):
        for function in (torch.exp, torch.expm1, lambda z: torch.pow(torch.full_like(z, 2.75), z)):
            exact = function(x.to(torch.complex128))
            for part in ("real", "imag"):
                right = getattr(exact, part).float()
                torch.testing.assert_close(getattr(function(on_device(x)), part).cpu(), right, rtol=2e-5, atol=0)


@pytest.mark.parametrize("name", ["sinh", "cosh", "sin", "cos"])
def test_large_parts_of_hyperbolic_functions(name: str) -> None:
    """exp(x) may overflow even if the real or imaginary part of the result is finite. Also test infinities on both
    axes."""
    large = [88.8, 89.4, 89.5, -90.0, 120.0, float("inf"), float("-inf"), float("nan")]
    x = torch.tensor([complex(a, b) for a in large for b in (0.0, -0.0, 1.5707963, -1.5707963, 1e-20)])
    x = x[x.real.isfinite() | (x.imag == 0)]
    x = x if name.endswith("h") else torch.complex(x.imag, x.real)
    result = getattr(x.to("mpsx"), name)().cpu()
    torch.testing.assert_close(torch.view_as_real(result), torch.view_as_real(getattr(x, name)()), equal_nan=True)


def test_powers_of_zero() -> None:
    z = torch.zeros(5, dtype=torch.complex64, device="mpsx")
    powers = torch.pow(z, torch.tensor([0, 2, 1 + 1j, -1, 1j], dtype=torch.complex64, device="mpsx")).cpu()
    assert powers[:3].tolist() == [1, 0, 0]
    assert powers[3].real == float("inf")
    assert powers[4].isnan()
    assert torch.pow(z, 0).cpu().tolist() == [1] * 5


def test_complex32_from_halves() -> None:
    x, y = torch.randn(2, 3, 4, dtype=torch.half)
    z = torch.complex(x.to("mpsx"), y.t().contiguous().t().to("mpsx"))
    assert z.dtype == torch.complex32
    assert torch.equal(z.real.cpu(), x)
    assert torch.equal(z.imag.cpu(), y)


def test_accuracy() -> None:
    """Use arguments for which textbook formulas lose digits: near 1, near branch cuts, and far from 0."""
    real = torch.tensor([1e-4, 0.3, 1.0, -1.0, 1.0001, -0.9999, 30.0, -1e15, 1e-15])
    z = torch.complex(*torch.meshgrid(real, real, indexing="ij"))
    for name in ("abs", "log", "log1p", "sqrt", "asin", "acos", "asinh", "acosh", "tanh", "expm1", "reciprocal", "sgn",
                 "atanh"):  # fmt: skip
        x = z if name != "expm1" else z[:6, :6]
        result, exact = getattr(torch, name)(on_device(x)).cpu(), getattr(torch, name)(x.to(torch.complex128))
        error = (result - exact).abs() / exact.abs().clamp(min=1e-30)
        assert error.max() < 2e-6, f"{name}: {error.max()} at {x.flatten()[error.argmax()]}"


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "empty"])
def test_sums(layout: str) -> None:
    z = in_layout(layout)
    for function in (torch.sum, torch.mean):
        close(function(on_device(z)), function(z.to(torch.complex128)), z.dtype)
        for dim in range(z.dim()):
            exact = function(z.to(torch.complex128), dim, keepdim=True)
            close(function(on_device(z), dim, keepdim=True), exact, z.dtype)
    close(torch.linalg.vector_norm(on_device(z), 3), torch.linalg.vector_norm(z.to(torch.complex128), 3), torch.float32)
    close(on_device(z.real).sum(dtype=z.dtype), z.real.sum(dtype=torch.complex128), z.dtype)


def test_where() -> None:
    a, b, mask = numbers("contiguous"), numbers("contiguous", 5), make("contiguous", torch.bool)
    assert torch.where(on_device(mask), on_device(a), on_device(b)).cpu().equal(torch.where(mask, a, b))
    assert torch.where(on_device(mask), on_device(a), 1.5j).cpu().equal(torch.where(mask, a, 1.5j))
    assert on_device(a).masked_fill(on_device(mask), SCALAR).cpu().equal(a.masked_fill(mask, SCALAR))
    assert on_device(a).masked_fill_(on_device(mask), 3).cpu().equal(a.masked_fill(mask, 3))


GRADIENTS: dict[str, Callable[..., torch.Tensor]] = {
    "product": lambda a, b: (a * b.conj() + a / b).sum(),
    "modulus": lambda a, b: (a.abs() + b.angle() * a.real).sum(),
    "exponential": lambda a, b: (a.exp() * b.sin()).mean(0).sum(),
    "power": lambda a, b: (a**2 * b.pow(3) + a.sgn()).sum(),
    "sinh": lambda a, b: (a.sinh() - b.sqrt().reciprocal()).sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    def gradients(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        result = GRADIENTS[name](a, b)
        (result.real + 2 * result.imag if result.is_complex() else result).backward()
        return a.grad, b.grad

    a, b = numbers("contiguous"), numbers("contiguous", 5)
    for ours, exact in zip(gradients(on_device(a), on_device(b)), gradients(a.cdouble(), b.cdouble()), strict=True):
        torch.testing.assert_close(ours.cpu(), exact.to(a.dtype), rtol=1e-5, atol=1e-5)
