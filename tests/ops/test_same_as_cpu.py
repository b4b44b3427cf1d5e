"""Regression tests. Each line is a call whose result, dtype or error used to differ from the CPU's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from small_tensors import ones, t, zeros

import mpsx

pytestmark = pytest.mark.usefixtures("silent_fallback")

NAN, INF = float("nan"), float("inf")
Call = Callable[[str], object]
CASES: dict[str, Call] = {}


def add(topic: str, **calls: Call) -> None:
    CASES.update({f"{topic}-{name}": call for name, call in calls.items()})


def numbers_and_nan(d: str) -> torch.Tensor:
    return t([*range(1, 11), NAN], d, torch.float32)


add(
    "isin",
    nan=lambda d: torch.isin(torch.arange(12.0, device=d), numbers_and_nan(d)),
    invert=lambda d: torch.isin(torch.arange(12.0, device=d), numbers_and_nan(d), invert=True),
    half=lambda d: torch.isin(torch.arange(12.0, device=d).half(), numbers_and_nan(d).half()),
    only_nan=lambda d: torch.isin(t([NAN, 1.0], d), t([NAN] * 20, d)),
    infinite=lambda d: torch.isin(t([NAN, 1.0, INF, -INF], d), t([NAN, -INF, 2.0] * 5 + [INF], d)),
)
add(
    "gather",
    scalar=lambda d: torch.gather(t(5.0, d), 0, t([0, 0, 0, 0], d)),
    scalar_out_of_range=lambda d: torch.gather(t(5.0, d), 0, t([0, 1], d)),
    scalar_index=lambda d: torch.gather(t([5.0, 6.0], d), 0, t(1, d)),
)


def images(d: str) -> torch.Tensor:
    return torch.arange(96.0, device=d).view(2, 3, 4, 4).to(memory_format=torch.channels_last)


def embedding_backward(d: str, rows: int, indices: object, weights: int = 4) -> torch.Tensor:
    return torch.ops.aten.embedding_dense_backward(ones(d, torch.float32, rows, 3), t(indices, d, torch.long), weights,
                                                   -1, False)  # fmt: skip


add(
    "embedding_backward",
    too_few=lambda d: embedding_backward(d, 2, [0, 1, 2, 0]),
    too_many=lambda d: embedding_backward(d, 6, [0, 1, 2, 0]),
    two_dimensions=lambda d: embedding_backward(d, 1, [[0, 1], [2, 0]]),
    none=lambda d: embedding_backward(d, 0, []),
)


def index_add(dtype: torch.dtype, alpha: complex, *shape: int) -> Call:
    def call(d: str) -> torch.Tensor:
        return zeros(d, dtype, *shape).index_add(0, t([0, 2], d), ones(d, dtype, 2, *shape[1:]), alpha=alpha)

    return call


for alpha in (0.5, 2.7, -1, 2, 300, 10**6, 10**12, True, 0, 1e39, 1j):
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool, torch.float16, torch.float32):
        add("index_add", **{f"{dtype}-{alpha}".replace(".", "_"): index_add(dtype, alpha)})
add("index_add", matrix=index_add(torch.int32, 0.5, 3, 2), integer_alpha=index_add(torch.int32, 3, 3, 2))


def mask(d: str) -> torch.Tensor:
    return t([True, False, True], d)


for value in (0.5, 2, 300, -1, 1e6, 1e39):
    for dtype in (torch.bool, torch.int8, torch.uint8, torch.float16, torch.float32):
        name = f"{dtype}-{value}"
        index = {
            "scatter": lambda d, v=value, y=dtype: zeros(d, y).scatter(0, t([1], d), v),
            "scatter_reduce": lambda d, v=value, y=dtype: zeros(d, y).scatter(0, t([1], d), v, reduce="add"),
            "index_fill": lambda d, v=value, y=dtype: zeros(d, y).index_fill(0, t([1], d), v),
            "masked_fill": lambda d, v=value, y=dtype: zeros(d, y).masked_fill(mask(d), v),
            "masked_fill_cpu": lambda d, v=value, y=dtype: zeros(d, y).masked_fill(mask(d), torch.tensor(v)),
        }
        add(name, **index)
half = torch.float16
add(
    "limits",
    threshold=lambda d: F.threshold(zeros(d, half), 1.0, 1e6),
    hardtanh=lambda d: F.hardtanh(zeros(d, half), 1e6, 2e6),
    hardshrink=lambda d: F.hardshrink(ones(d, half), 1e6),
    softshrink=lambda d: F.softshrink(ones(d, half), 1e6),
    softshrink_negative=lambda d: F.softshrink(ones(d), -1.0),
)


def pooled(size: int, stride: int, padding: int, dilation: int, gradient: bool) -> Call:
    def call(d: str) -> object:
        x = torch.arange(float(size**3), device=d).view(1, 1, size, size, size).requires_grad_()
        y, _ = F.max_pool3d(x, 2, stride, padding, dilation, ceil_mode=True, return_indices=True)
        return torch.autograd.grad(y.sum(), x)[0] if gradient else y.detach()

    return call


for size, stride, dilation in ((1, 1, 2), (2, 3, 3), (1, 2, 2), (3, 4, 4), (5, 4, 3)):
    # Compute gradients only for size 5. For smaller sizes, the indices are out of range, and PyTorch's CPU kernel would
    # write past its buffers.
    for gradient in (False, True) if size == 5 else (False,):
        add("max_pool3d", **{f"{size}-{stride}-{dilation}-{gradient}": pooled(size, stride, 1, dilation, gradient)})

PARTS = (0.0, -0.0, 1.0, -1.0, INF, -INF, 2.5)
COMPLEX = [complex(a, b) for a in PARTS for b in PARTS]
for op in (torch.acos, torch.asin, torch.atan, torch.acosh, torch.asinh, torch.atanh, torch.sqrt, torch.abs):
    add("complex", **{op.__name__: lambda d, op=op: op(t(COMPLEX, d))})
FINITE = [z for z in COMPLEX if abs(z) < INF]
add(
    "complex",
    over_zero=lambda d: t(COMPLEX, d) / t([0j], d),
    one_over=lambda d: 1 / t(FINITE, d),
    reciprocal=lambda d: t(FINITE, d).reciprocal(),
    over_infinity=lambda d: t(FINITE, d) / t([complex(INF, 1.0)], d),
    modulus_of_nan=lambda d: t([complex(NAN, 1.0), complex(1.0, NAN), complex(INF, NAN)], d).abs(),
)
add(
    "values",
    polygamma=lambda d: torch.polygamma(4, t([-2.5, -0.5, 1.5, -3.2, 10.0], d)),
    mean_of_floats_in_half=lambda d: torch.mean(ones(d), 0, out=torch.empty((), dtype=half, device=d)),
    negative_strides=lambda d: torch.empty(0, device=d).set_(ones(d).untyped_storage(), 2, (2,), (-1,)),
)
integer = torch.int32
for op in (torch.floor_divide, torch.remainder, torch.fmod):
    add(
        op.__name__,
        nothing=lambda d, op=op: op(torch.empty(0, dtype=integer, device=d), 0),
        nothing_by_tensor=lambda d, op=op: op(torch.empty(0, dtype=integer, device=d), zeros(d, integer, 1)),
        one=lambda d, op=op: op(ones(d, integer), 0),
    )
for name in ("abs neg floor ceil round trunc sign sgn frac bitwise_not conj_physical isposinf isneginf signbit sin "
             "logical_not nan_to_num relu").split():  # fmt: skip
    for in_dtype in (torch.float32, torch.int32) if name != "frac" else (torch.float32,):
        for out in (torch.float16, torch.int64, torch.bool, torch.float32):
            add(f"{name}_out", **{f"{in_dtype}-{out}": lambda d, name=name, in_dtype=in_dtype, out=out:
                getattr(torch, name)(ones(d, in_dtype), out=torch.empty(3, dtype=out, device=d))})  # fmt: skip


def in_place_slope(op: Callable[..., torch.Tensor]) -> Call:
    def call(d: str) -> torch.Tensor:
        x = t([-1.0, 1.0], d).requires_grad_()
        return torch.autograd.grad(op(x.clone(), -2).sum(), x)[0]

    return call


add("slope", leaky_relu=in_place_slope(F.leaky_relu_), elu=in_place_slope(F.elu_), celu=in_place_slope(F.celu_))


def expanded(op: Callable[[torch.Tensor, str], object]) -> Call:
    def call(d: str) -> object:
        op(x := torch.arange(3.0, device=d).view(3, 1).expand(3, 3), d)
        return x

    return call


add(
    "expanded",
    fill=expanded(lambda x, d: x.fill_(2)),
    zero=expanded(lambda x, d: x.zero_()),
    masked_fill=expanded(lambda x, d: x.masked_fill_(mask(d), 2)),
    masked_fill_tensor=expanded(lambda x, d: x.masked_fill_(mask(d), t(2.0, d))),
    triu=expanded(lambda x, d: x.triu_()),
    tril=expanded(lambda x, d: x.tril_()),
    threshold=expanded(lambda x, d: F.threshold_(x, 1, 5)),
    index_put=expanded(lambda x, d: x.index_put_((t([0], d),), t(3.0, d))),
    add=expanded(lambda x, d: x.add_(1)),
)
add(
    "grows",
    ldexp=lambda d: ones(d, half, 1).ldexp_(ones(d)),
    mul_out=lambda d: torch.mul(x := ones(d, half, 1), ones(d), out=x),
)


INFINITE = [complex(INF, 1), complex(-INF, 0), complex(0, INF), complex(2, -INF), complex(NAN, 1)]
add("complex_power", **{str(e): lambda d, e=e: torch.pow(t(INFINITE, d), e) for e in (2.5, 3, 0.5)},
    exponents=lambda d: torch.pow(t([complex(INF, 1), 2 + 1j, 1 + 0j], d), t([1 + 1j, complex(INF, 0), INF * 1j], d)),
    exp=lambda d: torch.exp(t([complex(INF, INF), complex(INF, NAN), complex(-INF, NAN)], d)))  # fmt: skip
add("squares_overflow", var=lambda d: torch.var(t([1e20, -1e20, 3e20, 1e19], d)),
    rows=lambda d: torch.var(t([[1e20, -1e20, 3e20, 1e19]] * 3, d), 1),
    columns=lambda d: torch.var(t([[1e20] * 3, [-1e20] * 3, [3e20] * 3], d), 0),
    infinite=lambda d: torch.var(t([1.0, INF, 3.0], d)))  # fmt: skip
add("nan", mode=lambda d: torch.mode(t([-1.0, NAN], d)))
add("out_type", nonzero_static=lambda d: torch.nonzero_static(t([1, 0, 1], d), size=2, out=zeros(d, torch.int32, 2, 1)))
for name in ("gelu", "hardtanh", "softplus", "elu", "leaky_relu", "silu", "mish", "log_sigmoid", "hardsigmoid",
             "hardswish", "softshrink", "hardshrink"):  # fmt: skip
    for in_dtype in (torch.float16, torch.float64, torch.int32):
        add(f"{name}_out", **{str(in_dtype): lambda d, name=name, in_dtype=in_dtype:
            getattr(torch.ops.aten, name).out(ones(d), out=zeros(d, in_dtype))})  # fmt: skip


def overlapping(op: Callable[..., object], *shape: int) -> Call:
    """Call `op` with an out= tensor that starts one element after the operand."""

    def call(d: str) -> object:
        base, n = torch.arange(1.0, 20, device=d), torch.Size(shape).numel()
        return op(base[:n].view(shape), out=base[1 : n + 1].view(shape))

    return call


add(
    "overlapping",
    cumsum=overlapping(lambda x, out: torch.cumsum(x, 0, out=out), 6),
    cumprod=overlapping(lambda x, out: torch.cumprod(x, 0, out=out), 6),
    cross=overlapping(lambda x, out: torch.linalg.cross(x, x + 1, out=out), 2, 3),
    addr=overlapping(lambda x, out: torch.addr(x, x[:, 0] + 0, x[0] + 0, out=out), 2, 3),
    addmv=overlapping(lambda x, out: torch.addmv(x, x.view(3, 1) + 0, x[:1] + 0, out=out), 3),
)


def cube(d: str) -> torch.Tensor:
    return torch.arange(60.0, device=d).view(3, 4, 5)


bools = t([True, False, True], "cpu")
add(
    "index_strides",
    middle=lambda d: cube(d).permute(1, 2, 0)[:, [0, 3], :],
    mask=lambda d: cube(d).permute(0, 2, 1)[bools.to(d)],
    masks=lambda d: cube(d).permute(2, 1, 0)[(torch.arange(20, device=d) % 3 == 0).view(5, 4)],
    transposed_index=lambda d: cube(d)[:, :, t([[0, 1, 4], [2, 2, 3]], d).t()],
    apart=lambda d: cube(d).transpose(0, 2)[t([0, 4], d), :, t([1, 2], d)],
    leading=lambda d: cube(d).transpose(0, 2)[None, [4, 1]],
)
add(
    "index_copy",
    scalar=lambda d: torch.index_copy(t(1.0, d), 0, t([0, 0], d), t([2.0, 3.0], d)),
    scalar_source=lambda d: torch.index_copy(ones(d), 0, t([1], d), t(3.0, d)),
)
add(
    "where_out",
    wider=lambda d: torch.where(mask(d), ones(d), ones(d), out=ones(d, torch.complex64)),
    of_integers=lambda d: torch.where(mask(d), ones(d, integer), ones(d, integer), out=ones(d)),
)
for name in ("sum", "prod", "mean", "cumsum", "cumprod"):
    for out in (torch.float32, torch.int32):
        add(f"{name}_of_complex", **{str(out): lambda d, name=name, out=out: getattr(torch, name)(
            t([1 + 2j, 3 - 1j], d), 0, out=zeros(d, out, 2)[slice(None) if "cum" in name else 0])})  # fmt: skip
for pads in ([-1, 0, 0, 0], [0, 0, -1, -1], [-2, 0, 3, 0], [-2, 1, -1, 3], [-2, -1, 0, 0], [-2, 0, -2, 0]):
    for kind in ("replicate", "reflect"):
        x = torch.arange(4.0).view(1, 1, 2, 2)
        add(f"pad_{kind}", **{str(pads): lambda d, pads=pads, kind=kind, x=x: F.pad(x.to(d), pads, kind)})


add(
    "numbers_of_0_dim",
    arange=lambda d: torch.arange(torch.tensor(1), t(9, d), torch.tensor(2), device=d),
    linspace=lambda d: torch.linspace(torch.tensor(1.0), t(7.0, d), 5, device=d),
    full=lambda d: torch.full((2,), torch.tensor(5.0), device=d),
)
for dtype in (torch.float32, torch.float16, torch.float64, torch.int32, torch.bool):
    add("bincount", **{str(dtype): lambda d, dtype=dtype: torch.bincount(t([1, 2, 1], d), ones(d, dtype))})
for name in ("max", "min", "amax", "amin", "aminmax", "cummax", "sort", "any", "prod"):
    add(f"{name}_of_bool", rows=lambda d, name=name: getattr(torch, name)(t([[True, False], [False, False]], d), **(
        {"dim": 1, "stable": True} if name == "sort" else {"dim": 1})))  # fmt: skip
for name in ("max", "min", "amax", "amin"):
    add(f"{name}_of_bool", all=lambda d, name=name: getattr(torch, name)(t([[True, False], [False, False]], d)))
for p in (0, 1, 2, 3, INF, -INF):
    add("vector_norm_over_no_dimension", **{str(p).replace("-", "minus_"): lambda d, p=p: torch.linalg.vector_norm(
        t([[3.0, -4.0], [1.0, 2.0]], d), p, dim=[])})  # fmt: skip
for eps in (0.0, 1e-5):
    add("batch_norm", **{str(eps): lambda d, eps=eps: F.batch_norm(torch.arange(6.0, device=d).view(3, 2), None, None,
        training=True, eps=eps)})  # fmt: skip
add(
    "no_channels",
    instance_norm=lambda d: F.instance_norm(torch.ones(2, 0, 3, device=d)),
    group_norm=lambda d: F.group_norm(torch.ones(2, 0, 3, device=d), 1),
)
for dtype in (torch.float32, torch.complex64):
    add("svd_out", **{str(dtype): lambda d, dtype=dtype: torch.svd(torch.eye(3, dtype=dtype, device=d), out=[
        torch.empty(0, dtype=torch.float32 if k == 1 else dtype, device=d) for k in range(3)])[1]})  # fmt: skip
add(
    "negative_strides",
    load=lambda d: torch._utils._rebuild_tensor_v2(ones(d).storage(), 2, (3,), (-1,), False, {}),
)


for name in ("mse_loss", "smooth_l1_loss", "huber_loss"):
    for other in ("same", "dense", "row"):
        y = {"same": lambda x: x * 0.5, "dense": lambda x: x.contiguous() * 0.5, "row": lambda x: x[:1] * 0.5}[other]
        add(f"{name}_strides", **{other: lambda d, name=name, y=y: getattr(F, name)(
            x := cube(d).permute(0, 2, 1), y(x), reduction="none")})  # fmt: skip
for name in ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"):
    add(f"{name}_strides", expanded=lambda d, name=name: getattr(F, name)(
        zeros(d, torch.float32, 3, 4).expand(2, 3, 4), zeros(d, torch.float32, 4, 3, 2).permute(2, 1, 0),
        reduction="none"))  # fmt: skip
for dtype in (torch.float16, torch.float64, torch.int32):
    add("vector_norm_out", **{str(dtype): lambda d, dtype=dtype: torch.linalg.vector_norm(
        cube(d), out=torch.empty((), dtype=dtype, device=d))})  # fmt: skip
add("vector_norm_out", complex=lambda d: torch.linalg.vector_norm(
    zeros(d, torch.complex64, 2, 0), out=zeros(d, torch.float32, 0)))  # fmt: skip
add(
    "strides",
    roll=lambda d: torch.roll(images(d), 1, 0),
    logsigmoid=lambda d: F.logsigmoid(images(d), out=zeros(d, torch.float32, 0)),
    roll_by_its_size=lambda d: torch.roll(images(d), 4, 2),
    roll_twice=lambda d: torch.roll(images(d), (1, 2), (1, 3)),
    addr_of_types=lambda d: torch.addr(t(248, d, torch.uint8), t([0], d), t([5, 7], d), beta=3),
    addr=lambda d: torch.addr(torch.arange(20.0, device=d).view(10, 2).t(), ones(d, torch.float32, 2), ones(
        d, torch.float32, 10)),
    addr_out=lambda d: torch.addr(torch.arange(20.0, device=d).view(10, 2).t(), ones(d, torch.float32, 2), ones(
        d, torch.float32, 10), out=zeros(d, torch.float32, 0)),
    out=lambda d: torch.logaddexp(images(d), images(d), out=zeros(d, torch.float64, 0)),
    abs_of_complex=lambda d: torch.abs(images(d) * 1j, out=zeros(d, torch.float32, 0)),
    volume=lambda d: F.max_pool3d(torch.arange(64.0, device=d).view(1, 2, 4, 2, 4).permute(0, 4, 1, 2, 3)[0], 2, 2),
    dropout_backward=lambda d: torch.ops.aten.native_dropout_backward(
        ones(d, torch.float32, 1, 5).expand(3, 5), ones(d, torch.bool, 5, 3).t(), 2.0),
    nan_to_num_of_integers=lambda d: torch.nan_to_num(images(d).int(), out=zeros(d, torch.int32, 0)),
)  # fmt: skip
add("embedding_bag", sparse_bytes=lambda d: torch.autograd.grad(F.embedding_bag(
    t([0, 1, 1], d, torch.uint8), w := ones(d, torch.float32, 2, 2).requires_grad_(), t([0, 3], d), sparse=True
).sum(), w)[0].to_dense())  # fmt: skip
add(
    "frexp",
    over_self=lambda d: torch.frexp(x := ones(d) * 3, out=(x, zeros(d, torch.int32))),
    out=lambda d: torch.frexp(ones(d), out=(zeros(d, torch.half), zeros(d, torch.int32))),
)
add("linspace", one_step=lambda d: torch.linspace(1.5, -3.5, 1, dtype=torch.uint8, device=d))
add("ldexp", strides=lambda d: torch.ldexp(ones(d, torch.float32, 2).expand(3, 2), zeros(d, torch.int32, 2, 3).t()))
add("ldexp", complex=lambda d: torch.ldexp(ones(d, torch.complex64), t(2.6, d, torch.half)))
for dtype in (torch.int32, torch.bfloat16):
    add("put_nothing", **{str(dtype): lambda d, dtype=dtype: ones(d).put_(zeros(d, dtype, 0), zeros(
        d, torch.float32, 0))})  # fmt: skip


def outcome(call: Call, device: str) -> object:
    try:
        result = call(device)
        torch.mpsx.synchronize()  # raises pending errors of asynchronous drivers
        return result
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
        return error


def assert_same(got: object, expected: object) -> None:
    if isinstance(expected, Exception) or isinstance(got, Exception):
        assert isinstance(got, Exception) and isinstance(expected, Exception), f"got {got}, expected {expected}"
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got.cpu(), expected, equal_nan=True)
        assert got.stride() == expected.stride()
    else:
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_same_as_cpu(name: str) -> None:
    expected = outcome(CASES[name], "cpu")
    assert_same(outcome(CASES[name], "mpsx"), expected)


def test_resize_fills_memory_in_deterministic_mode() -> None:
    for dtype in (torch.float16, torch.int64, torch.bool, torch.complex64):
        x = zeros("mpsx", dtype)
        torch.use_deterministic_algorithms(True)
        try:
            x.resize_(5)
        finally:
            torch.use_deterministic_algorithms(False)
        missing = x[3:].isnan() if dtype.is_floating_point or dtype.is_complex else x[3:] == (
            1 if dtype == torch.bool else torch.iinfo(dtype).max)  # fmt: skip
        assert missing.all() and not x[:3].any()


def test_householder_product_accuracy() -> None:
    a, tau = torch.geqrf(torch.randn(60, 40, dtype=torch.double, generator=torch.Generator().manual_seed(0)))
    exact = torch.linalg.householder_product(a, tau)
    errors = [(torch.linalg.householder_product(a.float().to(d), tau.float().to(d)).cpu() - exact).abs().max().item()
             for d in ("cpu", "mpsx")]  # fmt: skip
    # On the cuda driver, matmuls use 3xTF32, in which tensor cores round toward zero.
    limit = 2.0 if mpsx.driver()["name"] == "cuda" else 1.5
    assert errors[1] <= limit * errors[0]


def test_max_pool_of_padding_is_minus_infinity() -> None:
    """The window contains only padding."""
    assert pooled(1, 1, 1, 2, False)("mpsx").item() == -INF
