"""Every function in metal/elementwise/special.def: values, accuracy, out= and in-place forms, layouts, gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import scipy.special
import torch
from layouts import LAYOUTS, make, on_device
from tables import FLOAT, TAGS, rows

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

UNARY = [row[0] for row in rows("elementwise/special.def", "MPSX_SPECIAL", 1)]
BINARY = [row[0] for row in rows("elementwise/special.def", "MPSX_SPECIAL_BINARY", 1)]
# Domains of functions that are not defined for all x.
DOMAIN = {"special_ndtri": (0.001, 0.999), "erfinv": (-0.999, 0.999), "lgamma": (0.01, 30), "digamma": (0.1, 30),
          "special_erfcx": (-3, 30), "special_log_ndtr": (-20, 4), "special_entr": (0, 4)}  # fmt: skip
# Functions that PyTorch can differentiate.
GRADIENTS = ("sinc", "lgamma", "digamma", "erfinv", "i0", "special_i0e", "special_i1", "special_i1e", "special_entr",
             "special_erfcx", "special_ndtri", "special_log_ndtr", "logaddexp", "logaddexp2", "xlogy",
             "special_xlog1py")  # fmt: skip


def function_of(name: str) -> Callable[..., torch.Tensor]:
    module = torch.special if name.startswith("special_") else torch
    return getattr(module, name.removeprefix("special_"))


def domain_of(name: str) -> tuple[float, float]:
    positive = "bessel_y" in name or "bessel_k" in name
    return DOMAIN.get(name, (0.1, 9) if positive else (-3, 9))


def operands(name: str, layout: str, dtype: torch.dtype) -> list[torch.Tensor]:
    low, high = domain_of(name)
    if name in UNARY:
        return [make(layout, dtype, low=low, high=high)]
    if name.startswith("igamma"):
        return [make(layout, dtype, low=0.1, high=30), make(layout, dtype, low=0.1, high=40, seed=1)]
    if name == "special_zeta":
        return [make(layout, dtype, low=1.5, high=6), make(layout, dtype, low=0.5, high=6, seed=1)]
    x = make(layout, dtype, low=-0.9, high=2)
    order = make(layout, torch.float32, low=0, high=8, seed=1)
    return [x, (order.floor() if "polynomial" in name else order).to(dtype)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_values(name: str, layout: str) -> None:
    for dtype in FLOAT:
        arguments = operands(name, layout, dtype)
        # In half precision, the CPU rounds intermediate results, so compute the reference in float64.
        wide = arguments if dtype == torch.float32 else [a.double() for a in arguments]
        expected = function_of(name)(*wide).to(dtype)
        result = function_of(name)(*map(on_device, arguments))
        assert result.device.type == "mpsx"
        assert result.dtype == expected.dtype
        assert result.stride() == expected.stride()
        # Recurrences lose digits, so the results depend on how intermediate results are rounded.
        bounds = {"rtol": 2e-5, "atol": 2e-5} if "polynomial" in name and dtype == torch.float32 else {}
        torch.testing.assert_close(result.cpu(), expected, equal_nan=True, **bounds)


@pytest.mark.parametrize("name", UNARY)
def test_accuracy(name: str) -> None:
    low, high = domain_of(name)
    x = torch.linspace(low, high, 20011)
    exact = function_of(name)(x.double())
    if name == "special_airy_ai":  # below -2.09, PyTorch's error is up to 3e-6, even in float64
        exact = torch.from_numpy(scipy.special.airy(x.double().numpy())[0])

    def error(result: torch.Tensor) -> float:
        return ((result.cpu().double() - exact).abs() / exact.abs().clamp_min(1)).max().item()

    # Also allow 1.25 times the CPU's error, because rounding of the argument may dominate (oscillations, cancelling
    # series).
    assert error(function_of(name)(x.to("mpsx"))) <= max(1e-6, 1.25 * error(function_of(name)(x)))


@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str) -> None:
    infinity = float("inf")
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, infinity, -infinity, float("nan"), 1e-30, -1e-30])
    torch.testing.assert_close(function_of(name)(x.to("mpsx")).cpu(), function_of(name)(x), equal_nan=True,
                               rtol=5e-6, atol=1e-6)  # fmt: skip


@pytest.mark.parametrize("name", UNARY + BINARY)
def test_out_and_in_place(name: str) -> None:
    arguments = operands(name, "slice", torch.float32)
    expected = function_of(name)(*arguments)
    device = [on_device(a) for a in arguments]
    bounds = {"rtol": 2e-5, "atol": 2e-5}
    if name != "angle" or hasattr(torch.ops.aten.angle, "out"):
        out = torch.empty(0, device="mpsx")
        assert function_of(name)(*device, out=out) is out
        torch.testing.assert_close(out.cpu(), expected, **bounds)
    if hasattr(torch.Tensor, f"{name}_"):
        target = on_device(arguments[0])
        assert getattr(target, f"{name}_")(*device[1:]) is target
        torch.testing.assert_close(target.cpu(), expected, **bounds)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name: str) -> None:
    leaves = [a.clone().requires_grad_() for a in operands(name, "transposed", torch.float32)]
    if name == "xlogy":
        leaves = [a.detach().abs().add(0.1).requires_grad_() for a in leaves]
    device = [a.detach().to("mpsx").requires_grad_() for a in leaves]
    function_of(name)(*leaves).sum().backward()
    function_of(name)(*device).sum().backward()
    for a, b in zip(leaves, device, strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", UNARY + BINARY)
def test_kernel_ran(name: str) -> None:
    arguments = [a.to("mpsx") for a in operands(name, "contiguous", torch.float32)]
    with mpsx.profiler.launch_log() as log:
        function_of(name)(*arguments)
    assert f"kernel:{name}_dense_{TAGS[torch.float32]}" in log


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
def test_ndtri_outside_its_domain(dtype: torch.dtype) -> None:
    """Kernels process blocks of values. Cover blocks that are entirely outside of (0, 1), and mixed blocks."""
    x = torch.tensor([0.0, 1.0, -1.0, 2.0, -0.0, math.inf, -math.inf, math.nan]) if dtype.is_floating_point else None
    outside = (x if x is not None else torch.tensor([0, 1, -1, 2])).repeat(300).to(dtype)
    result = torch.special.ndtri(outside.to("mpsx")).cpu().float()
    assert torch.equal(result.nan_to_num(7, 8, 9), torch.special.ndtri(outside.float()).nan_to_num(7, 8, 9))
    if dtype.is_floating_point:
        mixed = torch.cat([outside, torch.rand(500).to(dtype)])
        expected = torch.special.ndtri(mixed.float()).to(dtype)
        torch.testing.assert_close(torch.special.ndtri(mixed.to("mpsx")).cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("name", [name for name in BINARY if "polynomial" in name])
def test_degrees_outside_the_range_of_integers(name: str) -> None:
    """Regression test: on drivers that saturate, the recurrences did not end."""
    degrees = torch.tensor([math.nan, math.inf, -math.inf, 3e38, -3e38, 2.0**63], device="mpsx")
    x = torch.tensor([1e-8, 0.5, -0.5, 1.0, 2.0], device="mpsx")[:, None]
    assert function_of(name)(x, degrees).count_nonzero() == 0


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_polygamma(n: int) -> None:
    x = torch.linspace(0.3, 20, 1001)
    exact = torch.polygamma(n, x.double())
    result = torch.polygamma(n, x.to("mpsx")).cpu().double()
    assert ((result - exact).abs() / exact.abs().clamp_min(1)).max().item() < 2e-6
    assert torch.polygamma(n, torch.arange(1, 5, device="mpsx")).dtype == torch.float32
    with pytest.raises(RuntimeError, match="negative n"):
        torch.polygamma(-1, x.to("mpsx"))


def test_trigamma_of_negative_numbers() -> None:
    """The CPU's kernel loses digits here, because it rounds pi * x."""
    x = torch.linspace(-8, 0, 4001)
    x = x[(x - x.round()).abs() > 1e-3]
    exact = torch.polygamma(1, x.double())
    assert ((torch.polygamma(1, x.to("mpsx")).cpu().double() - exact).abs() / exact).max().item() < 1e-6


@pytest.mark.parametrize("function", [torch.igamma, torch.igammac])
def test_incomplete_gamma_functions(function: Callable[..., torch.Tensor]) -> None:
    """Cover the algorithm for each argument range, and the boundaries between these ranges."""
    a = torch.tensor([1e-3, 0.02, 0.3, 0.9, 1.0, 1.7, 4.0, 9.9, 10.1, 19.0, 21.0, 60.0, 210.0, 1e3, 1e5]).unsqueeze(1)
    x = torch.cat([a * ratio for ratio in (1e-3, 0.1, 0.5, 0.69, 0.71, 0.95, 1.0, 1.02, 1.2, 1.31, 2.0, 5.0)], 1)
    x = torch.cat([x, torch.tensor([1e-4, 0.05, 0.4, 0.6, 1.05, 1.15, 3.0, 30.0]).expand(len(a), 8)], 1)
    exact = function(a.double(), x.double())
    error = (function(a.to("mpsx"), x.to("mpsx")).cpu().double() - exact).abs()
    cpu_error = (function(a, x).double() - exact).abs()
    assert error.max().item() <= max(1e-6, cpu_error.max().item())
    small = (exact < 0.1) & (exact > 1e-30)  # both devices subtract these values from 1, which loses digits
    assert (error / exact)[small].max() <= max(1e-5, (cpu_error / exact)[small].max())
    ends = torch.tensor([0.0, 1.0, -1.0, float("inf"), float("nan"), 50.0])
    p, q = (t.contiguous() for t in torch.meshgrid(ends, ends, indexing="ij"))
    torch.testing.assert_close(function(p.to("mpsx"), q.to("mpsx")).cpu(), function(p, q), equal_nan=True)
    leaf, on_mpsx = x.clone().requires_grad_(), x.to("mpsx").requires_grad_()
    function(a, leaf)[:-2].sum().backward()
    function(a.to("mpsx"), on_mpsx)[:-2].sum().backward()
    torch.testing.assert_close(on_mpsx.grad.cpu(), leaf.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOAT)
def test_frexp(dtype: torch.dtype) -> None:
    special = [0.0, -0.0, 1e-40, float("inf"), -float("inf"), float("nan"), 0.5, 1.0]
    for layout in LAYOUTS:
        x = make(layout, dtype)
        x = torch.cat([x.flatten(), torch.tensor(special, dtype=dtype)]) if layout == "contiguous" else x
        expected, result = torch.frexp(x), torch.frexp(on_device(x))
        for a, b in zip(result, expected, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=0, atol=0, equal_nan=True)
        outs = torch.empty(0, dtype=dtype, device="mpsx"), torch.empty(0, dtype=torch.int32, device="mpsx")
        torch.frexp(on_device(x), out=outs)
        assert torch.equal(outs[1].cpu(), expected[1])
    y = torch.rand(5, device="mpsx")
    assert torch.equal(torch.ldexp(*torch.frexp(y)).cpu(), y.cpu())


@pytest.mark.parametrize("dtype", FLOAT)
def test_ldexp(dtype: torch.dtype, no_fallback: None) -> None:
    """ldexp is exact even if 2**exponent overflows the dtype or bfloat16 cannot represent the exponent."""
    x = torch.tensor([3.0, 1e-30, 2.0**-133, 2.0**-24, 1.5e4, -0.0, float("inf"), float("nan")]).to(dtype)
    for power in (2, -3, 100, 200, 257, 277, -149, -2000, 2**30):
        y = torch.tensor(power)
        for exponent in (y, y.int(), y.expand(3, 8)):
            on_mpsx = torch.ldexp(x.to("mpsx"), exponent.to("mpsx"))
            torch.testing.assert_close(on_mpsx.cpu(), torch.ldexp(x, exponent), rtol=0, atol=0, equal_nan=True)
        in_place = x.to("mpsx").ldexp_(y.to("mpsx"))
        torch.testing.assert_close(in_place.cpu(), torch.ldexp(x, y), rtol=0, atol=0, equal_nan=True)
    wide = torch.ones(3, 8, dtype=torch.int64, device="mpsx")
    out = torch.empty(0, dtype=torch.float32, device="mpsx")
    assert torch.ldexp(x[:6].to("mpsx"), wide[:, :6], out=out) is out
    torch.testing.assert_close(out.cpu(), torch.ldexp(x[:6], wide[:, :6].cpu()).float(), rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.to("mpsx").ldexp_(wide)


def test_heaviside_of_two_dtypes_raises() -> None:
    with mpsx.fallback.using_mode("silent"), pytest.raises(RuntimeError, match="different dtypes"):
        torch.heaviside(torch.ones(2, device="mpsx"), torch.ones(2, dtype=torch.float16, device="mpsx"))


@pytest.mark.parametrize("name", [name for name in BINARY if "polynomial" not in name and "igamma" not in name])
def test_scalars(name: str) -> None:
    """Pass a Python scalar or a 0-dim CPU tensor as one of the operands."""
    x = make("transposed", torch.float32, low=1.5, high=4)
    for number in (torch.tensor(2.5), 2.5) if name not in ("logaddexp", "logaddexp2") else (torch.tensor(2.5),):
        for arguments in ((x, number), (number, x)):
            device = [on_device(a) if a is x else a for a in arguments]
            result = function_of(name)(*device)
            assert result.device.type == "mpsx"
            torch.testing.assert_close(result.cpu(), function_of(name)(*arguments), rtol=1e-5, atol=1e-5)


def test_zeta_fast_and_general_paths() -> None:
    """The host driver has a fast path for blocks in which all arguments are in a common range. Compare it with the
    general path."""
    x = torch.tensor([1.0000001, 1.01, 1.5, 2, 3.7, 10, 23, 60, 200, 1e4, math.inf])
    q = torch.tensor([1e-30, 1e-3, 0.5, 0.99, 1, 1.01, 7.5, 33, 1e5, 1e8])
    x, q = (t.flatten() for t in torch.meshgrid(x, q, indexing="ij"))
    exact = torch.special.zeta(x.double(), q.double()).float()
    expected = torch.special.zeta(x, q)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        fast = torch.special.zeta(x.to(dtype).to("mpsx"), q.to(dtype).to("mpsx")).cpu()
        general = torch.special.zeta(torch.cat([x, torch.tensor([-1.0])]).to(dtype).to("mpsx"),
                                     torch.cat([q, torch.tensor([1.0])]).to(dtype).to("mpsx")).cpu()  # fmt: skip
        assert general[-1].isnan()
        torch.testing.assert_close(fast, general[:-1], rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=0)
    result = torch.special.zeta(x.to("mpsx"), q.to("mpsx")).cpu()
    known = ~expected.isnan()  # where zeta is almost 0, float32 intermediate results overflow on the CPU
    torch.testing.assert_close(result[known], expected[known], rtol=1e-5, atol=1e-37)
    near = exact.isfinite() & (x < 1e3)
    torch.testing.assert_close(result[near], exact[near], rtol=1e-4, atol=1e-37)
