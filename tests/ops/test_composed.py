"""Operators composed of others (src/ops/composed*.cpp, searchsorted.cpp, gated.cpp), without fallbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_as_accurate
from error_messages import error_messages
from layouts import LAYOUTS, make, on_device
from opinfo.common import samples
from tables import DTYPES, FLOAT, INT
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

pytestmark = pytest.mark.usefixtures("no_fallback")

# Operators whose OpInfo samples all run in kernels.
OPERATORS = (
    "equal", "eye", "trace", "complex", "polar", "cross", "linalg.cross", "logspace", "renorm", "isin",
    "masked_scatter", "put", "histc", "nonzero_static", "searchsorted", "bucketize", "repeat_interleave",
    "nn.functional.channel_shuffle", "nn.functional.glu", "nn.functional.prelu", "nan_to_num", "logit", "round",
    "nn.functional.hardshrink", "nn.functional.softshrink", "cov", "corrcoef", "linspace",
    "nn.functional.hardtanh", "nn.functional.threshold", "nn.functional.relu6",
)  # fmt: skip
# Sums of many products, in a different order than on the CPU: compare their errors against float64.
SUMS_OF_PRODUCTS = ("cov", "corrcoef")
NO_KERNEL = {("logspace", torch.int32), ("round", torch.int32)}
# Operators that support complex numbers.
COMPLEX = (
    "addcmul", "addcdiv", "lerp", "cumsum", "cumprod", "prod", "var", "std", "var_mean", "std_mean", "any", "all",
    "count_nonzero", "equal", "cross", "linalg.cross", "renorm", "linspace", "linalg.vander", "sinc",
    "logaddexp", "masked_scatter", "nonzero_static", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
SAMPLES = [op for op in op_db if op.name in OPERATORS + COMPLEX]


def on(device: str, tree: object) -> object:
    def move(x: object) -> object:
        return x.to(device) if isinstance(x, torch.Tensor) else device if isinstance(x, torch.device) else x

    return tree_map(move, tree)


def is_float(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def cases() -> Iterator[object]:
    for op in SAMPLES:
        real = (torch.float32, torch.int32) if op.name in OPERATORS else ()
        for dtype in real + ((torch.complex64,) if op.name in COMPLEX else ()):
            if (op.name, dtype) not in NO_KERNEL and dtype in op.supported_dtypes("cpu"):
                yield pytest.param(op, dtype, id=f"{op.formatted_name}-{str(dtype)[6:]}")


@pytest.mark.parametrize(("op", "dtype"), cases())
def test_samples(op: object, dtype: torch.dtype) -> None:
    for sample in samples(op, dtype, None):
        expected = op(sample.input, *sample.args, **sample.kwargs)
        kwargs = {k: "mpsx" if k == "device" else v for k, v in sample.kwargs.items()}
        result = op(on("mpsx", sample.input), *on("mpsx", sample.args), **on("mpsx", kwargs))
        if isinstance(expected, bool):
            assert result == expected
            continue
        for a, b in zip(*((r,) if isinstance(r, torch.Tensor) else r for r in (result, expected)), strict=True):
            assert a.stride() == b.stride() or b.numel() <= 1
            if op.name in SUMS_OF_PRODUCTS and b.is_floating_point() and b.isfinite().all():
                args, kwargs = tree_map(lambda x: x.double() if is_float(x) else x, (sample.args, sample.kwargs))
                assert_as_accurate(on("cpu", a), b, op(sample.input.double(), *args, **kwargs))
                continue
            torch.testing.assert_close(on("cpu", a), b, equal_nan=True)


def test_histc_of_integers() -> None:
    """CUDA bins integers with integer division, and the CPU does not support them. MoE models count tokens this way."""
    x = torch.randint(-20, 20, (5, 301))
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        for bins, low, high in ((7, -9, 11), (40, -20, 19), (3, 0, 0), (5, -1.5, 8.5)):
            first, last = (int(low), int(high)) if low != high else (int(x.min()), int(x.max()))
            inside = x[(x >= first) & (x <= last)]
            bin_index = ((inside - first) * bins // (last - first)).clamp_max(bins - 1)
            ours = torch.histc(x.to("mpsx", dtype), bins, low, high)
            assert ours.dtype == dtype
            assert torch.equal(ours.cpu(), torch.bincount(bin_index, minlength=bins).to(dtype))
    large = torch.tensor([2**30, 2**30 + 1, 2**30 + 2], dtype=torch.int32, device="mpsx")
    assert torch.histc(large, 3).tolist() == [1, 1, 1]  # float32 cannot represent these numbers
    assert torch.histc(large[:0], 3, 0, 2).tolist() == [0, 0, 0]


def test_bincount() -> None:
    for dtype in INT:
        x = torch.randint(0, 50, (1000,)).to(dtype)
        weights = torch.rand(1000)
        assert torch.equal(torch.bincount(x.to("mpsx")).cpu(), torch.bincount(x))
        assert torch.equal(torch.bincount(x.to("mpsx"), minlength=99).cpu(), torch.bincount(x, minlength=99))
        many = x.repeat(200_000 // len(x) + 1)
        assert torch.equal(torch.bincount(many.to("mpsx")).cpu(), torch.bincount(many))
        ours = torch.bincount(many.to("mpsx"), minlength=70_000).cpu()
        assert torch.equal(ours, torch.bincount(many, minlength=70_000))
        ours = torch.bincount(x.to("mpsx"), weights.to("mpsx")).cpu()
        torch.testing.assert_close(ours, torch.bincount(x, weights).float(), rtol=1e-5, atol=1e-5)
    assert torch.bincount(torch.empty(0, dtype=torch.int64, device="mpsx"), minlength=3).tolist() == [0, 0, 0]
    for bad in (torch.tensor([1, -1]), torch.ones(2, 2, dtype=torch.int64)):
        with pytest.raises(RuntimeError, match="1-d non-negative"):
            torch.bincount(bad.to("mpsx"))
    with pytest.raises(RuntimeError, match="minlength"):
        torch.bincount(x.to("mpsx"), minlength=-1)


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("dtype", [*FLOAT, torch.int64, torch.int32, torch.int16, torch.uint8])
def test_sequences(dtype: torch.dtype) -> None:
    for start, end, step in ((0, 10, 1), (3, 20, 4), (9, 2, -3), (5, 5, 1)):
        expected = torch.range(start, end, step, dtype=dtype)
        torch.testing.assert_close(torch.range(start, end, step, dtype=dtype, device="mpsx").cpu(), expected)
    if dtype.is_floating_point:
        torch.testing.assert_close(torch.range(0.5, 4, 0.25, dtype=dtype, device="mpsx").cpu(),
                                   torch.range(0.5, 4, 0.25, dtype=dtype))  # fmt: skip
        return
    for start, end, steps in ((0, 10, 5), (3, 100, 7), (50, 3, 11), (4, 9, 1), (0, 7, 0), (0, 120, 100)):
        expected = torch.linspace(start, end, steps, dtype=dtype)
        assert torch.equal(torch.linspace(start, end, steps, dtype=dtype, device="mpsx").cpu(), expected)


def test_less_common_overloads() -> None:
    x = torch.tensor([[1, 3, 3], [1, 3, 3], [0, 2, 9]])
    on_mpsx = x.to("mpsx")
    for number in (3, 7):
        assert torch.isin(number, on_mpsx).item() == torch.isin(number, x).item()
        assert torch.isin(number, on_mpsx, invert=True).item() == torch.isin(number, x, invert=True).item()
    ordered = torch.arange(0, 20, 2, device="mpsx")
    out = torch.empty((), dtype=torch.int64, device="mpsx")
    assert torch.searchsorted(ordered, 7, out=out) is out
    assert out.item() == 4
    found = torch.empty(0, 2, dtype=torch.int64, device="mpsx")
    torch.nonzero_static(on_mpsx, size=12, fill_value=-1, out=found)
    assert torch.equal(found.cpu(), torch.nonzero_static(x, size=12, fill_value=-1))
    for a, b in zip(torch._unique(on_mpsx, return_inverse=True), torch._unique(x, return_inverse=True), strict=True):
        assert torch.equal(a.cpu(), b)
    for forms in zip(*(torch.unique_consecutive(t, True, True, dim=0) for t in (on_mpsx, x)), strict=True):
        assert torch.equal(forms[0].cpu(), forms[1])
    torch._assert_async(on_mpsx[0, 0])
    with pytest.raises(RuntimeError, match="nonzero"):
        torch._assert_async(on_mpsx[2, 0])
    with pytest.raises(RuntimeError, match="custom message"):
        torch._assert_async(on_mpsx[2, 0], "custom message")


def test_activations_of_integers() -> None:
    for dtype in INT:
        x = make("transposed", dtype, high=9)
        for function in (F.relu6, lambda t: F.threshold(t, 2, 7), lambda t: F.hardtanh(t, 0, 3), torch.logit,
                         lambda t: F.relu6(t.clone(), inplace=True)):  # fmt: skip
            torch.testing.assert_close(function(on_device(x)).cpu(), function(x), equal_nan=True)
    with pytest.raises(RuntimeError, match="unsigned type with negative limits"):
        F.hardtanh(torch.ones(2, dtype=torch.uint8, device="mpsx"), -1, 1)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "prod", "var", "lerp", "addcdiv", "tanh", "sigmoid"])
def test_gradients_of_complex_numbers(name: str) -> None:
    a, b, c = (torch.randn(4, 5, dtype=torch.complex64, generator=torch.Generator().manual_seed(k)) for k in range(3))
    more = {"cumsum": (1,), "cumprod": (1,), "prod": (1,), "var": (1,), "lerp": (b, c), "addcdiv": (b, c)}

    def gradients(*inputs: torch.Tensor) -> list[torch.Tensor]:
        leaves = [t.detach().requires_grad_() if isinstance(t, torch.Tensor) else t for t in inputs]
        torch.view_as_real(getattr(torch, name)(*leaves) + 0j).square().sum().backward()
        return [t.grad for t in leaves if isinstance(t, torch.Tensor)]

    inputs = (a, *more.get(name, ()))
    ours = gradients(*(on("mpsx", t) for t in inputs))
    exact = gradients(*(t.to(torch.complex128) if isinstance(t, torch.Tensor) else t for t in inputs))
    for x, y in zip(ours, exact, strict=True):
        torch.testing.assert_close(x.cpu(), y.to(x.dtype), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 2])
def test_weight_norm(dim: int, dtype: torch.dtype) -> None:
    v = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(1)).to(dtype)
    g = (v.float().norm(dim=[d for d in range(3) if d != dim], keepdim=True) + 1).to(dtype)

    def results(v: torch.Tensor, g: torch.Tensor) -> list[torch.Tensor]:
        leaves = [t.detach().requires_grad_() for t in (v, g)]
        weight = torch._weight_norm(*leaves, dim)
        return [weight, *torch.autograd.grad(weight.square().sum() + weight.sum(), leaves)]

    exact = results(v.double(), g.double())
    for ours, cpu, wide in zip(results(on_device(v), on_device(g)), results(v, g), exact, strict=True):
        assert_as_accurate(ours.detach(), cpu.detach(), wide.detach())


def test_random_complex_numbers() -> None:
    x = torch.randn(20_000, dtype=torch.complex64, device="mpsx").cpu()
    assert abs(x.real.std().item() - 0.5**0.5) < 0.02
    assert abs(x.imag.std().item() - 0.5**0.5) < 0.02
    assert abs((x.real * x.imag).mean().item()) < 0.02
    y = torch.rand(20_000, dtype=torch.complex64, device="mpsx").cpu()
    assert abs(y.real.mean().item() - 0.5) < 0.02
    assert 0 <= y.imag.min().item() <= y.imag.max().item() < 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES["ALL"])
def test_unique(dtype: torch.dtype, layout: str) -> None:
    x = make(layout, dtype)
    if not dtype.is_floating_point:
        results = torch.unique(on_device(x), return_inverse=True, return_counts=True)
        for a, b in zip(results, torch.unique(x, return_inverse=True, return_counts=True), strict=True):
            assert torch.equal(a.cpu(), b)
    results = torch.unique_consecutive(on_device(x), return_inverse=True, return_counts=True)
    for a, b in zip(results, torch.unique_consecutive(x, return_inverse=True, return_counts=True), strict=True):
        assert torch.equal(a.cpu(), b)
    assert torch.equal(torch.unique(on_device(x)).cpu(), torch.unique(x))


@pytest.mark.parametrize("dtype", DTYPES["REAL"])
def test_searchsorted_and_bucketize(dtype: torch.dtype) -> None:
    rows = make("contiguous", dtype).sort(-1).values
    x = make("transposed", dtype, seed=1)
    for right in (False, True):
        assert torch.equal(torch.searchsorted(rows.to("mpsx"), x.contiguous().to("mpsx"), right=right).cpu(),
                           torch.searchsorted(rows, x.contiguous(), right=right))  # fmt: skip
        row = rows[0, 0]
        assert torch.equal(torch.bucketize(x.to("mpsx"), row.to("mpsx"), right=right, out_int32=True).cpu(),
                           torch.bucketize(x, row, right=right, out_int32=True))  # fmt: skip
    unsorted = make("contiguous", dtype)
    order = unsorted.argsort(-1)
    assert torch.equal(torch.searchsorted(unsorted.to("mpsx"), rows.to("mpsx"), sorter=order.to("mpsx")).cpu(),
                       torch.searchsorted(unsorted, rows, sorter=order))  # fmt: skip


def test_searchsorted_with_nan_and_empty_input() -> None:
    boundaries = torch.tensor([0.0, 1.0, 2.0, float("inf"), float("nan")])
    x = torch.tensor([float("nan"), float("-inf"), float("inf"), 1.0, -0.0])
    for right in (False, True):
        assert torch.equal(torch.searchsorted(boundaries.to("mpsx"), x.to("mpsx"), right=right).cpu(),
                           torch.searchsorted(boundaries, x, right=right))  # fmt: skip
    empty = torch.empty(0, device="mpsx")
    assert torch.searchsorted(empty, x.to("mpsx")).cpu().tolist() == [0] * 5
    assert torch.searchsorted(boundaries.to("mpsx"), empty).shape == (0,)
    assert torch.searchsorted(boundaries.to("mpsx"), 1.5).item() == 2


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("dim", [0, -1])
def test_glu_backward(dtype: torch.dtype, dim: int) -> None:
    x = torch.randn(4, 6, 8).to(dtype)
    leaf, wide = x.to("mpsx").requires_grad_(), x.double().requires_grad_()
    F.glu(leaf, dim).sum().backward()
    F.glu(wide, dim).sum().backward()
    torch.testing.assert_close(leaf.grad.cpu(), wide.grad.to(dtype))


@pytest.mark.parametrize("dtype", FLOAT)
def test_prelu_backward(dtype: torch.dtype) -> None:
    x, w = torch.randn(4, 6, 8).to(dtype), torch.rand(6).to(dtype)
    leaves = [t.to("mpsx").requires_grad_() for t in (x, w)]
    wide = [t.double().requires_grad_() for t in (x, w)]
    F.prelu(*leaves).sum().backward()
    F.prelu(*wide).sum().backward()
    torch.testing.assert_close(leaves[0].grad.cpu(), wide[0].grad.to(dtype))
    bounds = {} if dtype == torch.float32 else {"rtol": 3e-2, "atol": 3e-2}  # 32 products, rounded before the sum
    torch.testing.assert_close(leaves[1].grad.cpu(), wide[1].grad.to(dtype), **bounds)


def test_rrelu() -> None:
    x = torch.randn(10_000, device="mpsx", requires_grad=True)
    y = F.rrelu(x, 0.1, 0.3, training=True)
    slope = (y / x).detach().cpu()[x.detach().cpu() < 0]
    assert 0.0999 <= slope.min() < 0.11
    assert 0.29 < slope.max() <= 0.3001
    assert torch.equal(y.detach()[x > 0], x.detach()[x > 0])
    y.sum().backward()
    torch.testing.assert_close(x.grad[x < 0], (y / x).detach()[x < 0])
    torch.testing.assert_close(F.rrelu(x, 0.1, 0.3).cpu(), F.rrelu(x.cpu(), 0.1, 0.3))
    torch.manual_seed(3)
    first = F.rrelu(x, training=True)
    torch.manual_seed(3)
    assert torch.equal(first, F.rrelu(x, training=True))


def test_embedding_with_max_norm() -> None:
    weight, index = torch.randn(10, 4) * 3, torch.tensor([1, 3, 3, 7])
    device = weight.to("mpsx")
    result = F.embedding(index.to("mpsx"), device, max_norm=1.0)
    expected = F.embedding(index, weight, max_norm=1.0)
    torch.testing.assert_close(result.cpu(), expected)
    torch.testing.assert_close(device.cpu(), weight)


def test_out_with_other_layouts() -> None:
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    x, y = a.to("mpsx"), b.to("mpsx")
    out = torch.empty(3, 4, device="mpsx").t()
    assert torch.linalg.cross(x, y, out=out) is out
    torch.testing.assert_close(out.cpu(), torch.linalg.cross(a, b))
    torch.linalg.cross(x, y, out=x)
    torch.testing.assert_close(x.cpu(), torch.linalg.cross(a, b))
    out = torch.empty(3, 4, device="mpsx").t()
    torch.renorm(y, 2, 0, 0.5, out=out)
    torch.testing.assert_close(out.cpu(), torch.renorm(b, 2, 0, 0.5))
    out = torch.empty(0, dtype=torch.bool, device="mpsx")
    torch.isin(y, y[0], out=out)
    assert torch.equal(out.cpu(), torch.isin(b, b[0]))
    many = torch.arange(0, 100, 3)
    assert torch.equal(torch.isin(torch.arange(100, device="mpsx"), many.to("mpsx"), invert=True).cpu(),
                       torch.isin(torch.arange(100), many, invert=True))  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: torch.trace(x[0]), "expected a matrix"),
        (lambda x: torch.eye(-1, device="mpsx"), "n must be greater"),
        (lambda x: x.masked_scatter_(torch.isfinite(x), x[:1, :1]), "as many as mask selects"),
        (lambda x: torch.repeat_interleave(torch.tensor([1, -1], device="mpsx")), "can not be negative"),
        (lambda x: torch.histc(x, 4, 2, 1), "max must be larger than min"),
        (lambda x: F.softshrink(x, -1), "lambda must be in range"),
        (lambda x: F.glu(x, 0), "even"),
        (lambda x: torch.searchsorted(x[0], x.half(), side="top"), "side can only be"),
        (lambda x: torch.bucketize(x, x), "1 dimension"),
    ],
)
def test_errors(call: Callable[[torch.Tensor], object], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(torch.randn(5, 6, device="mpsx"))


@pytest.mark.parametrize("count", [0, 1, 2, 5, 33, 64, 100])
def test_searchsorted_steps_match_the_cpu(count: int) -> None:
    """If boundaries end in NaN, the result of a binary search depends on its steps. Also search with a sorter."""
    values = torch.randn(3, 77) * 20
    for dtype in (torch.float32, torch.float16, torch.int64, torch.int8):
        x = values.to(dtype)
        boundaries = (torch.randn(count) * 20).to(dtype).sort().values
        if dtype.is_floating_point:
            x[0, ::5], x[1, 1], x[1, 2] = float("nan"), float("inf"), -float("inf")
            boundaries[count - count // 3 :] = float("nan")
        for right in (False, True):
            ours = torch.searchsorted(boundaries.to("mpsx"), x.to("mpsx"), right=right, out_int32=right)
            assert torch.equal(ours.cpu(), torch.searchsorted(boundaries, x, right=right, out_int32=right))
        mixed = boundaries[torch.randperm(count)]
        order = mixed.argsort()
        ours = torch.searchsorted(mixed.to("mpsx"), x.to("mpsx"), sorter=order.to("mpsx"))
        assert torch.equal(ours.cpu(), torch.searchsorted(mixed, x, sorter=order))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64, torch.bfloat16, torch.complex64], ids=str)
def test_masked_scatter_sizes(dtype: torch.dtype) -> None:
    """A single thread handles small inputs; larger ones run in parallel."""
    for size in (1, 200, 1000, 40000):
        x = torch.randn(size).to(dtype)
        mask, source = torch.rand(size) < 0.4, torch.randn(size).to(dtype)
        for a, m in ((x, mask), (x.repeat(2, 1).t(), mask[:, None]), (x, torch.zeros_like(mask)), (x[::2], mask[::2])):
            expected = a.masked_scatter(m, source.repeat(2))
            result = a.to("mpsx").masked_scatter(m.to("mpsx"), source.repeat(2).to("mpsx"))
            assert torch.equal(result.cpu(), expected)
    few = x.to("mpsx")[:50]
    with pytest.raises(RuntimeError, match="as many as mask selects"):
        few.masked_scatter_(torch.ones(50, dtype=torch.bool, device="mpsx"), few[:49].clone())
    assert torch.equal(few.cpu(), x[:50])


def test_trace() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64):
        wide = torch.randn(70, 90) * 9
        for x in (wide, wide.t()[:, :3], wide[:0], wide[:1, :1], wide[:, ::2]):
            typed = x.to(dtype)  # torch 2.11's CPU trace does not support half precision
            expected = typed.float().trace().to(dtype) if dtype.is_floating_point else typed.trace()
            result = x.to("mpsx").to(dtype).trace()
            assert result.dtype == expected.dtype and result.shape == expected.shape
            torch.testing.assert_close(result.cpu(), expected)
    assert torch.eye(5, dtype=torch.bool, device="mpsx").trace().item() == 5


def test_error_messages_match_the_cpu() -> None:
    def ints(d: str) -> torch.Tensor:
        return torch.ones(2, dtype=torch.int32, device=d)

    def floats(d: str) -> torch.Tensor:
        return torch.ones(2, device=d)

    calls: list[Callable[[str], object]] = [
        lambda d: torch.complex(ints(d), ints(d)),
        lambda d: torch.complex(floats(d), floats(d).double()),
        lambda d: torch.complex(floats(d), floats(d), out=floats(d)),
        lambda d: torch.polar(ints(d), ints(d)),
        lambda d: torch.arange(1.2e-38, 3.4e38, device=d),
        lambda d: torch.arange(-(2**63), 2**63 - 1, device=d),
    ]
    for call in calls:
        cpu, device = error_messages(call)
        assert cpu == device
