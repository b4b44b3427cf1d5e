"""Every operator in binary.def and compare.def, division and powers: values, dtypes, broadcasting, out=, gradients."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import DTYPES, FLOAT, INT, rows

pytestmark = pytest.mark.usefixtures("no_fallback")

ARITHMETIC = [(row[0], row[2]) for row in rows("elementwise/binary.def", "MPSX_BINARY", 3)]
RARE = [tuple(row) for row in rows("elementwise/special.def", "MPSX_RARE_BINARY", 2)]
COMPARE = [(row[0], "ALL") for row in rows("elementwise/compare.def", "MPSX_COMPARE", 2)]
DIVISION = [("floor_divide", "REAL"), ("fmod", "REAL"), ("remainder", "REAL"), ("pow", "REAL")]
ALL = ARITHMETIC + RARE + COMPARE + DIVISION
NAMES = [name for name, _ in ALL]


def operands(name: str, layout: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    a = make(layout, dtype, seed=1)
    b = make(layout, dtype, seed=2)
    if name == "pow":
        a = make(layout, dtype, seed=1, low=0.1 if dtype.is_floating_point else 1, high=4)
        b = make(layout, dtype, seed=2, low=0, high=3)
    elif name in ("floor_divide", "fmod", "remainder", "div"):
        b = torch.where(b == 0, torch.ones_like(b), b) if b.numel() else b
    return a, b


def check(function, *tensors: torch.Tensor, **kwargs) -> None:
    try:
        expected = function(*tensors, **kwargs)
    except RuntimeError:  # without CPU support for this dtype, there is no reference
        return
    result = function(*(on_device(t) for t in tensors), **kwargs)
    assert result.device.type == "mpsx"
    assert result.dtype == expected.dtype
    assert result.stride() == expected.stride()
    torch.testing.assert_close(result.cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "types"), ALL)
def test_values(name: str, types: str, layout: str) -> None:
    for dtype in DTYPES["ALL"] if types == "FLOAT" else DTYPES[types]:
        check(getattr(torch, name), *operands(name, layout, dtype))


@pytest.mark.parametrize("name", NAMES)
def test_mixed_layouts(name: str) -> None:
    types = dict(ALL)[name]
    dtype = DTYPES[types][0]
    for first, second in itertools.permutations(("contiguous", "transposed", "slice", "step", "expanded"), 2):
        a, _ = operands(name, first, dtype)
        _, b = operands(name, second, dtype)
        check(getattr(torch, name), a, b)


@pytest.mark.parametrize(
    "shapes",
    [
        ((4, 5), (5,)),
        ((5,), (4, 5)),
        ((4, 1), (4, 5)),
        ((4, 5), (4, 1)),
        ((4, 1), (1, 5)),
        ((2, 3, 4, 5), (3, 1, 5)),
        ((), (4, 5)),
        ((4, 5), ()),
        ((0, 5), (5,)),
        ((1,), (1,)),
        ((2, 3, 2, 3, 2, 2), (2, 1, 2, 1, 2, 1)),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_broadcasting(name: str, shapes: tuple) -> None:
    dtype = DTYPES[dict(ALL)[name]][0]
    generator = torch.Generator().manual_seed(0)
    a, b = ((torch.rand(s, generator=generator) * 3 + 1).to(dtype) for s in shapes)
    check(getattr(torch, name), a, b)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "eq", "lt", "floor_divide", "pow"])
def test_promotion(name: str) -> None:
    dtypes = (*FLOAT, *INT, torch.bool)
    for left, right in itertools.product(dtypes, dtypes):
        check(getattr(torch, name), torch.tensor([[1, 2, 3]]).to(left), torch.tensor([[1], [2]]).to(right))


# Operators that have a Scalar overload in PyTorch.
SCALAR_OVERLOADS = [
    "add",
    "sub",
    "mul",
    "div",
    "copysign",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "floor_divide",
    "fmod",
    "remainder",
    "pow",
]


@pytest.mark.parametrize("number", [2, 2.5, -1, True, 0.1])
@pytest.mark.parametrize("name", SCALAR_OVERLOADS)
def test_scalars(name: str, number: float) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
        for layout in ("contiguous", "transposed"):
            a, _ = operands(name, layout, dtype)
            check(lambda t, n=number: getattr(torch, name)(t, n), a)
            if name in ("add", "sub", "mul", "div", "pow"):
                names = {
                    "add": "__radd__",
                    "sub": "__rsub__",
                    "mul": "__rmul__",
                    "div": "__rtruediv__",
                    "pow": "__rpow__",
                }
                check(lambda t, n=number, s=names[name]: getattr(t, s)(n), a)


@pytest.mark.parametrize("name", NAMES)
def test_cpu_scalar_tensor(name: str) -> None:
    a, _ = operands(name, "slice", DTYPES[dict(ALL)[name]][0])
    scalar = torch.tensor(2).to(a.dtype)
    expected = getattr(torch, name)(a, scalar)
    torch.testing.assert_close(getattr(torch, name)(on_device(a), scalar).cpu(), expected)
    expected = getattr(torch, name)(scalar, a)
    torch.testing.assert_close(getattr(torch, name)(scalar, on_device(a)).cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_in_place_and_out(name: str) -> None:
    dtype = DTYPES[dict(ALL)[name]][0]
    a, b = operands(name, "slice", dtype)
    expected = getattr(torch, name)(a, b)
    if hasattr(torch.Tensor, f"{name}_"):
        target = on_device(a)
        assert getattr(target, f"{name}_")(on_device(b)) is target
        torch.testing.assert_close(target.cpu(), getattr(a.clone(), f"{name}_")(b))
    for out in (
        torch.empty(0, dtype=expected.dtype),
        torch.empty(expected.shape[::-1], dtype=expected.dtype).permute(2, 1, 0),
    ):
        target = on_device(out)
        assert getattr(torch, name)(on_device(a), on_device(b), out=target) is target
        torch.testing.assert_close(target.cpu(), expected)


@pytest.mark.parametrize("alpha", [2, -3, 0.5])
def test_alpha(alpha: float) -> None:
    for dtype in (torch.float32, torch.int32):
        a, b = make("contiguous", dtype, seed=1), make("transposed", dtype, seed=2)
        if alpha != 0.5 or dtype == torch.float32:
            check(lambda x, y: torch.add(x, y, alpha=alpha), a, b)
            check(lambda x, y: torch.sub(x, y, alpha=alpha), a, b)
            check(lambda x: torch.add(x, 2, alpha=alpha), a)
    # Compare with float64, because the CPU rounds alpha * b to half and mpsx does not.
    a, b = make("contiguous", torch.float16, seed=1), make("transposed", torch.float16, seed=2)
    exact = torch.add(a.double(), b.double(), alpha=alpha).half()
    torch.testing.assert_close(torch.add(a.to("mpsx"), b.to("mpsx"), alpha=alpha).cpu(), exact)
    with pytest.raises(RuntimeError, match="must not be a floating point"):
        torch.add(torch.ones(2, dtype=torch.int64, device="mpsx"), 1, alpha=0.5)


@pytest.mark.parametrize("mode", ["trunc", "floor", None])
def test_rounding_mode(mode: str | None) -> None:
    for dtype in (torch.float32, *INT):
        a, b = operands("div", "contiguous", dtype)
        check(lambda x, y: torch.div(x, y, rounding_mode=mode), a, b)
    for dtype in (torch.float16, torch.bfloat16):  # the CPU rounds the quotient before it truncates
        a, b = operands("div", "contiguous", dtype)
        exact = torch.div(a.double(), b.double(), rounding_mode=mode).to(dtype)
        torch.testing.assert_close(torch.div(a.to("mpsx"), b.to("mpsx"), rounding_mode=mode).cpu(), exact)


@pytest.mark.parametrize("dtype", INT)
def test_shifts(dtype: torch.dtype) -> None:
    """Include negative shift amounts and shift amounts of at least the bit width."""
    info = torch.iinfo(dtype)
    values = torch.tensor([info.min, info.max, 0, 1, 5, info.max // 3], dtype=dtype)
    counts = torch.tensor([0, 1, 3, info.bits - 1, info.bits, info.bits + 1, info.min, info.max], dtype=dtype)
    a, b = torch.meshgrid(values, counts, indexing="ij")
    for function in (lambda x, y: x << y, lambda x, y: x >> y, torch.Tensor.__lshift__, torch.Tensor.__rshift__):
        check(function, a.contiguous(), b.contiguous())
        check(lambda x, f=function: f(x, 2), a)
    for name in ("__ilshift__", "__irshift__", "bitwise_left_shift_", "bitwise_right_shift_"):
        check(lambda x, y, n=name: getattr(x.clone(), n)(y), a, b)
        check(lambda x, n=name: getattr(x.clone(), n)(1), a)
    check(lambda x: torch.bitwise_left_shift(3, x), b)
    check(lambda x: torch.bitwise_right_shift(100, x), b)


def test_gcd_and_lcm_of_large_numbers() -> None:
    generator = torch.Generator().manual_seed(1)
    for dtype, most in ((torch.int64, 2**62), (torch.int32, 2**30), (torch.int16, 2**14), (torch.int8, 100)):
        a, b = (torch.randint(-most, most, (400,), generator=generator).to(dtype) for _ in range(2))
        a, b = torch.cat([a, a[:20] * 0, a[:20]]), torch.cat([b, b[:20], b[:20] * 0])
        expected = torch.tensor([math.gcd(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)])
        assert torch.equal(torch.gcd(a.to("mpsx"), b.to("mpsx")).cpu(), expected.to(dtype))
        check(torch.lcm, a, b)
    least = torch.tensor([-(2**63)], device="mpsx")
    assert torch.gcd(least, torch.tensor([6], device="mpsx")).item() == 2


@pytest.mark.parametrize("dtype", FLOAT)
def test_nextafter(dtype: torch.dtype) -> None:
    infinity = float("inf")
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, infinity, -infinity, float("nan"), torch.finfo(dtype).tiny,
                           torch.finfo(dtype).max, -3.5], dtype=dtype)  # fmt: skip
    a, b = (t.contiguous() for t in torch.meshgrid(values, values, indexing="ij"))
    result = torch.nextafter(a.to("mpsx"), b.to("mpsx")).cpu()
    torch.testing.assert_close(result, torch.nextafter(a, b), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(result.signbit() | result.isnan(), torch.nextafter(a, b).signbit() | result.isnan())


@pytest.mark.parametrize("exponent", [0.5, 2, 3, -0.5, -1, -2])
def test_small_constant_exponents(exponent: float) -> None:
    bits = torch.arange(-(2**15), 2**15).to(torch.int16)
    for dtype in (torch.float16, torch.bfloat16):  # mpsx rounds once, but the CPU rounds bfloat16 more than once
        x = bits.view(dtype)
        exact = torch.pow(x.float(), exponent).to(dtype)
        result = torch.pow(x.to("mpsx"), exponent)
        # The reference is rounded twice: first to float32, then to the dtype.
        torch.testing.assert_close(result.cpu(), exact, rtol=torch.finfo(dtype).eps, atol=0, equal_nan=True)
        assert torch.equal(result.cpu().signbit() | exact.isnan(), exact.signbit() | exact.isnan())
        out = torch.empty(0, dtype=dtype, device="mpsx")
        torch.pow(x.to("mpsx"), exponent, out=out)
        assert torch.equal(out.view(torch.int16), result.view(torch.int16))
        assert torch.equal(x.to("mpsx").pow_(exponent).view(torch.int16), result.view(torch.int16))
    for dtype in (torch.float32, *INT):
        if dtype == torch.float32 or exponent in (2, 3):
            x = make("transposed", dtype, low=-100, high=100)
            check(lambda t: torch.pow(t, exponent), x)
            check(lambda t: t.clone().pow_(exponent), x)


@pytest.mark.parametrize("all_large", [False, True])
def test_fmod_and_remainder_are_exact(all_large: bool) -> None:
    """Use random bit patterns, both alone and mixed with ordinary numbers. Quotients have up to 277 bits."""
    bits = torch.randint(-(2**31), 2**31, (2, 6000), generator=torch.Generator().manual_seed(1)).to(torch.int32)
    a, b = bits.view(torch.float32)
    if not all_large:
        positions = torch.tensor([5, 2000, 5999])
        a, b = (torch.randn(6000).index_copy(0, positions, t[positions]) for t in (a, b))
    ends = torch.tensor([0.0, -0.0, 1.0, -3.0, float("inf"), -float("inf"), float("nan"), 1e-45, 3e38])
    a = torch.cat([a, ends.repeat(9), b[:100] * 3])
    b = torch.cat([b, ends.repeat_interleave(9), b[:100]])
    nan = float("nan")
    exact = torch.tensor([nan if math.isinf(x) or y == 0 else math.fmod(x, y)
                          for x, y in zip(a.tolist(), b.tolist(), strict=True)])  # fmt: skip
    remainder = torch.fmod(a.to("mpsx"), b.to("mpsx")).cpu()
    torch.testing.assert_close(remainder, exact, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(remainder.signbit() | exact.isnan(), a.signbit() | exact.isnan())
    floored = torch.where((exact != 0) & (exact.signbit() != b.signbit()), exact + b, exact)
    result = torch.remainder(a.to("mpsx"), b.to("mpsx")).cpu()
    torch.testing.assert_close(result, floored, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(torch.fmod(on_device(a)[::2], on_device(b)[::2]).cpu().isnan(), exact[::2].isnan())
    if not all_large:
        check(torch.floor_divide, a, b)


@pytest.mark.parametrize("dtype", FLOAT)
def test_copysign(dtype: torch.dtype) -> None:
    values = torch.tensor([0.0, -0.0, 1.5, -2.0, float("inf"), -float("inf"), float("nan"), 1e-7], dtype=dtype)
    a, b = (t.contiguous() for t in torch.meshgrid(values, values, indexing="ij"))
    on_gpu = torch.mpsx.get_device_properties().driver in ("cuda", "metal")
    for x, y in ((a, b), (a, -b), (a, b[:1]), (a[:, :1].expand(a.shape), b)):
        result, expected = torch.copysign(on_device(x), on_device(y)).cpu(), torch.copysign(x, y)
        torch.testing.assert_close(result.abs(), expected.abs(), rtol=0, atol=0, equal_nan=True)
        # GPUs return a canonical NaN, so the sign of a NaN is lost.
        signed = ~(x.isnan() | y.isnan()) | (not on_gpu)
        assert torch.equal(result.signbit() & signed, expected.signbit() & signed)


def test_remainder_of_a_scalar() -> None:
    for dtype in (torch.float32, torch.int32):
        check(lambda x: torch.remainder(7, x), make("slice", dtype, low=1, high=5))
        check(lambda x: torch.remainder(-7, x), make("slice", dtype, low=1, high=5))


def test_integer_limits() -> None:
    for dtype in (torch.int64, torch.int32):
        low = torch.iinfo(dtype).min
        a, b = torch.tensor([low, low, 7, -7], dtype=dtype), torch.tensor([-1, 1, -2, 2], dtype=dtype)
        for function in (torch.floor_divide, torch.remainder, torch.fmod, torch.add, torch.mul, torch.sub):
            if function is torch.floor_divide:
                a, b = a[1:], b[1:]  # INT_MIN / -1 is undefined on the CPU
            check(function, a, b)
    for function in (torch.floor_divide, torch.remainder, torch.fmod):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(torch.ones(3, dtype=torch.int64, device="mpsx"), torch.tensor([1, 0, 2], device="mpsx"))
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(torch.ones(3, dtype=torch.int64, device="mpsx"), 0)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "fmax", "atan2", "hypot", "pow"])
def test_nan_and_infinity(name: str) -> None:
    values = torch.tensor([0.0, -0.0, 1.0, -2.0, float("inf"), -float("inf"), float("nan"), 3e38, 1e-40])
    a, b = torch.meshgrid(values, values, indexing="ij")
    check(getattr(torch, name), a.contiguous(), b.contiguous())


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "atan2", "hypot", "pow", "fmod"])
def test_gradient(name: str) -> None:
    a, b = (t.abs() + 0.5 for t in operands(name, "contiguous", torch.float32))
    b = b[:, :1]
    cpu = [a.clone().requires_grad_(), b.clone().requires_grad_()]
    device = [t.detach().to("mpsx").requires_grad_() for t in cpu]
    getattr(torch, name)(*cpu).sum().backward()
    getattr(torch, name)(*device).sum().backward()
    for x, y in zip(cpu, device, strict=True):
        torch.testing.assert_close(y.grad.cpu(), x.grad, rtol=1e-5, atol=1e-5)


def test_overlap_and_shape_errors() -> None:
    x = torch.ones(1, 4, device="mpsx").expand(3, 4)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.ones(3, device="mpsx") + torch.ones(4, device="mpsx")
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="mpsx") + torch.ones(3)


@pytest.mark.parametrize("name", ["mul", "add", "sub", "div"])
def test_scalar_overloads(name: str) -> None:
    """PyTorch passes the scalar to the operator as a 0-dim float64 CPU tensor. For `mul_`, it is the first operand."""
    x = torch.arange(1.0, 6.0)
    overload = getattr(torch.ops.aten, f"{name}_").Scalar
    torch.testing.assert_close(overload(x.clone().to("mpsx"), -0.2).cpu(), overload(x.clone(), -0.2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
def test_operands_broadcast_along_rows(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    shape = (3, 2, 5, 4, 2, 40)  # more dimensions than one launch supports

    def values(*sizes: int) -> torch.Tensor:
        return torch.randint(1, 7, sizes, generator=generator).to(dtype)

    column, row, full = values(3, 2, 5, 4, 2, 1).expand(shape), values(40).expand(shape), values(*shape)
    gap = values(3, 2, 5, 4, 2, 43)[..., 1:41]
    functions = [
        lambda a: a.neg(), lambda a: a + 3, lambda a: 3 - a, lambda a: a.to(torch.float16), lambda a: a > 3,
        lambda a: a.clamp(2, 4), lambda a: torch.where(a > 2, a, 5), lambda a: a.masked_fill(a > 4, 1),
    ]  # fmt: skip
    for tensor in (column, row, gap, column.transpose(0, 3), values(1).expand(64), column[..., ::2], gap[..., ::2]):
        for function in functions:
            check(function, tensor)
    for a, b, c in itertools.permutations((column, full, gap), 3):
        check(torch.where, a > 3, b, c)
        check(torch.add, a, b)
        check(lambda a, b, c: a.clone().masked_fill_(b > 3, c.flatten()[0]), a, b, c)
    target = torch.zeros(3, 2, 5, 4, 2, 80, dtype=dtype)
    result = target.to("mpsx")
    torch.add(column, 2, out=target[..., ::2])
    torch.add(on_device(column), 2, out=result[..., ::2])
    torch.testing.assert_close(result.cpu(), target)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8])
def test_transposed_and_dense_operands(dtype: torch.dtype) -> None:
    """The host driver copies a transposed operand in panels. The largest shape has several panels in each dimension."""
    generator = torch.Generator().manual_seed(4)

    def values(*sizes: int) -> torch.Tensor:
        return torch.randint(1, 7, sizes, generator=generator).to(dtype)

    pairs = [
        (values(70, 61).t(), values(61, 70)),
        (values(40, 9000).t(), values(9000, 40)),
        (values(9000, 40).t(), values(40, 9000)),
        (values(3, 2, 33, 50).transpose(2, 3), values(3, 2, 50, 33)),
        (values(2, 17, 19, 23).to(memory_format=torch.channels_last), values(2, 17, 19, 23)),
        (values(5, 4, 3, 2, 40, 30).transpose(4, 5)[:, 1:], values(5, 3, 3, 2, 30, 40)),
        (values(401, 402)[1:, 2:].t(), values(400, 1).expand(400, 400)),
    ]
    for a, b in pairs:
        check(torch.add, a, b)
        check(torch.sub, b, a)
        check(torch.lt, a, b)
        check(lambda a, b: torch.where(a > b, a, b), a, b)
        check(lambda a, b: torch.where(a > b, a, 3), a, b)
        check(lambda a, b: b.clone().mul_(a), a, b)
