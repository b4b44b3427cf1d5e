"""Activations with gradients, and ternary operators."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_as_accurate
from layouts import LAYOUTS, make, on_device
from tables import DTYPES, FLOAT, INT

pytestmark = pytest.mark.usefixtures("no_fallback")

ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 1.3),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.8),
    "relu6": F.relu6,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "softplus": lambda x: F.softplus(x, 2.0, 5.0),
    "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "threshold": lambda x: F.threshold(x, 0.1, -7.0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values(name: str, layout: str) -> None:
    for dtype in FLOAT:
        x = make(layout, dtype, low=-8, high=8)
        expected, result = ACTIVATIONS[name](x), ACTIVATIONS[name](on_device(x))
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result.cpu(), expected)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradient(name: str) -> None:
    for dtype in FLOAT:
        for layout in ("contiguous", "transposed", "scalar", "empty"):
            x = make(layout, dtype, low=-6, high=6)
            weight = make(layout, dtype, seed=3)
            a, b = x.clone().requires_grad_(), on_device(x).detach().requires_grad_()
            ACTIVATIONS[name](a).backward(weight)
            ACTIVATIONS[name](b).backward(on_device(weight))
            torch.testing.assert_close(b.grad.cpu(), a.grad)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_extremes(name: str) -> None:
    x = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 100.0, -100.0, 1e-30])
    expected = ACTIVATIONS[name](x)
    if name == "gelu":
        expected[0] = float("inf")  # the CPU's vectorized kernel returns NaN here
    torch.testing.assert_close(ACTIVATIONS[name](x.to("mpsx")).cpu(), expected, equal_nan=True)


def test_in_place_and_out() -> None:
    x = make("slice", torch.float32)
    for function in (F.silu, F.elu, F.leaky_relu, F.hardswish, F.mish, F.relu):
        target = on_device(x)
        assert function(target, inplace=True) is target
        torch.testing.assert_close(target.cpu(), function(x))
    out = torch.empty(0, device="mpsx")
    torch._C._nn.gelu(on_device(x), approximate="tanh", out=out)
    torch.testing.assert_close(out.cpu(), F.gelu(x, approximate="tanh"))


def test_out_variants_of_gradients() -> None:
    """PyTorch calls these variants only for third-party backends. They must resize empty outputs."""
    aten, x, g = torch.ops.aten, torch.randn(5, 7), torch.randn(5, 7)

    def all_of(x: torch.Tensor, g: torch.Tensor) -> list[torch.Tensor]:
        def new() -> torch.Tensor:
            return torch.empty(0, device=x.device)

        output, buffer = aten.log_sigmoid_forward.output(x, output=new(), buffer=new())
        return [
            aten.elu_backward.grad_input(g, 0.5, 1.2, 0.8, False, x, grad_input=new()),
            output,
            aten.log_sigmoid_backward.grad_input(g, x, buffer, grad_input=new()),
            torch.mvlgamma(x.abs() + 3, 3, out=new()),
        ]

    for result, expected in zip(all_of(on_device(x), on_device(g)), all_of(x, g), strict=True):
        torch.testing.assert_close(result.cpu(), expected)


def test_gelu_is_as_accurate_as_on_the_cpu() -> None:
    x = torch.linspace(-7, 7, 200_001)
    assert_as_accurate(F.gelu(x.to("mpsx")).cpu(), F.gelu(x), F.gelu(x.double()), times=1.0)
    leaves = [x.clone().requires_grad_(), x.to("mpsx").requires_grad_(), x.double().requires_grad_()]
    for leaf in leaves:
        F.gelu(leaf).sum().backward()
    cpu, ours, exact = (leaf.grad.cpu() for leaf in leaves)
    assert_as_accurate(ours, cpu, exact, times=1.0)
    special = torch.tensor([-0.0, 0.0, 1e30, -1e30, -10.0, 1e-30, float("inf"), float("nan")])
    expected = torch.where(special > 0, special, special * 0)
    expected[5] /= 2
    result = F.gelu(special.to("mpsx")).cpu()
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(result.signbit()[:5], special.signbit()[:5])


@pytest.mark.parametrize("dtype", FLOAT)
def test_clamp_with_nan_and_infinite_bounds(dtype: torch.dtype) -> None:
    nan, infinity = float("nan"), float("inf")
    x = torch.tensor([nan, -0.0, 0.0, infinity, -infinity, 0.5, -3.0], dtype=dtype)
    for low, high in ((-1, 1), (nan, 1), (-1, nan), (2, -2), (0, infinity), (-infinity, -0.0)):
        for function in (torch.clamp, F.hardtanh) if low <= high else (torch.clamp,):
            result, expected = function(x.to("mpsx"), low, high).cpu(), function(x, low, high)
            torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


def test_gelu_with_an_unknown_approximation_raises() -> None:
    with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
        F.gelu(torch.ones(3, device="mpsx"), approximate="fast")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_where_and_masked_fill(layout: str) -> None:
    for dtype in DTYPES["ALL"]:
        a, b, mask = make(layout, dtype, seed=1), make(layout, dtype, seed=2), make(layout, torch.bool, seed=3)
        da, db, dmask = on_device(a), on_device(b), on_device(mask)
        torch.testing.assert_close(torch.where(dmask, da, db).cpu(), torch.where(mask, a, b))
        torch.testing.assert_close(torch.where(dmask, da, 1).cpu(), torch.where(mask, a, 1))
        torch.testing.assert_close(torch.where(dmask, 1, da).cpu(), torch.where(mask, 1, a))
        filled, expected = da.masked_fill(dmask, 1), a.masked_fill(mask, 1)
        assert filled.stride() == expected.stride()
        torch.testing.assert_close(filled.cpu(), expected)
        torch.testing.assert_close(da.masked_fill(dmask, torch.tensor(1).to(dtype)).cpu(), a.masked_fill(mask, 1))
        if layout != "expanded":
            torch.testing.assert_close(on_device(a).masked_fill_(dmask, 1).cpu(), a.clone().masked_fill_(mask, 1))


def test_where_broadcasts_and_promotes() -> None:
    mask = torch.tensor([[True], [False]])
    a, b = torch.arange(3), torch.randn(2, 3, dtype=torch.float16)
    expected = torch.where(mask, a, b)
    result = torch.where(mask.to("mpsx"), a.to("mpsx"), b.to("mpsx"))
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result.cpu(), expected)
    torch.testing.assert_close(torch.where(mask.to("mpsx"), 1.5, 2.5).cpu(), torch.where(mask, 1.5, 2.5))


def test_where_with_a_number_on_the_cpu_as_condition() -> None:
    x, y = torch.randn(3, 4), torch.randn(4)
    for condition in (torch.tensor(True), torch.tensor(False)):
        for a, b in ((x, y), (x, 1.5), (1.5, x), (x, torch.tensor(2.0)), (torch.tensor(2), x), (x.long(), y)):
            operands = (t.to("mpsx") if isinstance(t, torch.Tensor) and t.dim() else t for t in (a, b))
            got = torch.where(condition, *operands)
            torch.testing.assert_close(got.cpu(), torch.where(condition, a, b), rtol=0, atol=0)
            assert got.device.type == "mpsx"



@pytest.mark.parametrize("layout", LAYOUTS)
def test_clamp(layout: str) -> None:
    for dtype in DTYPES["REAL"]:
        x, low, high = make(layout, dtype), make(layout, dtype, seed=1) - 1, make(layout, dtype, seed=2) + 1
        if dtype == torch.uint8:
            low, high = make(layout, dtype, seed=1), make(layout, dtype, seed=2)
        d = on_device(x)
        for bounds in ({"min": 0}, {"max": 1}, {"min": 0, "max": 2}, {"min": 2, "max": 1}, {"min": 0.5}):
            torch.testing.assert_close(d.clamp(**bounds).cpu(), x.clamp(**bounds))
        torch.testing.assert_close(d.clamp(on_device(low), on_device(high)).cpu(), x.clamp(low, high))
        torch.testing.assert_close(d.clamp_min(1).cpu(), x.clamp_min(1))
        torch.testing.assert_close(torch.clamp_max(d, on_device(high)).cpu(), torch.clamp_max(x, high))
        if layout != "expanded":
            torch.testing.assert_close(on_device(x).clamp_(0, 2).cpu(), x.clone().clamp_(0, 2))


@pytest.mark.parametrize("out_dtype", [torch.float64, torch.float16, torch.int64, torch.complex64], ids=str)
def test_out_of_another_dtype_raises(out_dtype: torch.dtype) -> None:
    """Like the CPU, clamp with scalar bounds and heaviside reject an out= tensor with a different dtype."""
    for device in ("cpu", "mpsx"):
        x, out = torch.arange(4.0, device=device), torch.empty(4, dtype=out_dtype, device=device)
        for call in (lambda x, out: torch.clamp(x, 1, 2, out=out), lambda x, out: torch.clamp_min(x, 1, out=out),
                     lambda x, out: torch.clamp_max(x, 1, out=out)):  # fmt: skip
            with pytest.raises(RuntimeError, match=r"Found dtype \w+ but expected Float|can't be cast"):
                call(x, out)
        with pytest.raises(RuntimeError, match=r"heaviside is not yet implemented for (tensors with|complex)"):
            torch.heaviside(x, x, out=out)
        # A tensor bound takes part in type promotion, and the result is converted to the dtype of the out= tensor.
        if out_dtype == torch.float64:
            torch.clamp_min(x, torch.ones(4, device=device), out=out)
            assert out.tolist() == [1, 1, 2, 3]


def test_clamp_nan() -> None:
    x = torch.tensor([float("nan"), 1.0, -1.0])
    torch.testing.assert_close(x.to("mpsx").clamp(0, 0.5).cpu(), x.clamp(0, 0.5), equal_nan=True)
    low = torch.tensor([0.0, float("nan"), 0.0])
    torch.testing.assert_close(x.to("mpsx").clamp(min=low.to("mpsx")).cpu(), x.clamp(min=low), equal_nan=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_addcmul_addcdiv_lerp(layout: str) -> None:
    for dtype in FLOAT:
        a, b, c = (make(layout, dtype, seed=s) for s in (1, 2, 3))
        c = c.abs() + 0.5
        da, db, dc = on_device(a), on_device(b), on_device(c)
        torch.testing.assert_close(torch.addcmul(da, db, dc, value=0.5).cpu(), torch.addcmul(a, b, c, value=0.5))
        torch.testing.assert_close(torch.addcdiv(da, db, dc, value=-2).cpu(), torch.addcdiv(a, b, c, value=-2))
        torch.testing.assert_close(torch.lerp(da, db, 0.3).cpu(), torch.lerp(a, b, 0.3))
        torch.testing.assert_close(torch.lerp(da, db, dc).cpu(), torch.lerp(a, b, c))


def test_gradients_of_ternary_operators() -> None:
    tensors = [torch.rand(4, 5) + 0.5 for _ in range(3)]
    for function in (torch.addcmul, torch.addcdiv, torch.lerp, lambda a, b, c: torch.where(a > 1, b, c),
                     lambda a, b, c: a.clamp(b - 0.3, c + 0.3)):  # fmt: skip
        cpu = [t.clone().requires_grad_() for t in tensors]
        device = [t.to("mpsx").requires_grad_() for t in tensors]
        function(*cpu).sum().backward()
        function(*device).sum().backward()
        for x, y in zip(cpu, device, strict=True):
            assert (x.grad is None) == (y.grad is None)
            if x.grad is not None:
                torch.testing.assert_close(y.grad.cpu(), x.grad)


def test_activations_of_integers() -> None:
    for dtype in INT:
        x = make("transposed", dtype, high=9)
        for function in (F.relu6, lambda t: F.threshold(t, 2, 7), lambda t: F.hardtanh(t, 0, 3), torch.logit,
                         lambda t: F.relu6(t.clone(), inplace=True)):  # fmt: skip
            torch.testing.assert_close(function(on_device(x)).cpu(), function(x), equal_nan=True)
    with pytest.raises(RuntimeError, match="unsigned type with negative limits"):
        F.hardtanh(torch.ones(2, dtype=torch.uint8, device="mpsx"), -1, 1)


def test_gradients_have_the_layout_of_the_cpu() -> None:
    contiguous, transposed = torch.randn(2, 8, 5), torch.randn(2, 5, 8).mT
    for function in (lambda g, x: torch.ops.aten.threshold_backward(g, x, 0),
                     lambda g, x: torch.ops.aten.leaky_relu_backward(g, x, 0.1, False)):  # fmt: skip
        for grad, x in ((contiguous, transposed), (transposed, contiguous)):
            want, got = function(grad, x), function(grad.to("mpsx"), x.to("mpsx"))
            assert torch.equal(got.cpu(), want) and got.stride() == want.stride()
