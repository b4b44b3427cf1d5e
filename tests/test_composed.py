"""Operators made of others (src/ops/composed*.cpp, searchsorted.cpp, gated.cpp): values, forms, errors; no fallback."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from layouts import LAYOUTS, make, on_device
from tables import DTYPES, FLOAT
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

# Whose every sample in OpInfo has kernels.
OPERATORS = (
    "equal", "eye", "trace", "complex", "polar", "cross", "linalg.cross", "logspace", "renorm", "isin",
    "masked_scatter", "put", "histc", "nonzero_static", "searchsorted", "bucketize", "repeat_interleave",
    "nn.functional.channel_shuffle", "nn.functional.glu", "nn.functional.prelu", "nan_to_num", "logit", "round",
    "nn.functional.hardshrink", "nn.functional.softshrink", "cov", "corrcoef",
)  # fmt: skip
NO_KERNEL = {("logspace", torch.int32), ("logit", torch.int32), ("round", torch.int32)}
SAMPLES = [op for op in op_db if op.name in OPERATORS]


def on(device: str, tree: object) -> object:
    def move(x: object) -> object:
        return x.to(device) if isinstance(x, torch.Tensor) else device if isinstance(x, torch.device) else x

    return tree_map(move, tree)


def cases() -> Iterator[object]:
    for op in SAMPLES:
        for dtype in (torch.float32, torch.int32):
            if (op.name, dtype) not in NO_KERNEL and dtype in op.supported_dtypes("cpu"):
                yield pytest.param(op, dtype, id=f"{op.formatted_name}-{str(dtype)[6:]}")


@pytest.mark.parametrize(("op", "dtype"), cases())
def test_samples(op: object, dtype: torch.dtype) -> None:
    for sample in op.sample_inputs("cpu", dtype):
        expected = op(sample.input, *sample.args, **sample.kwargs)
        kwargs = {k: "mpsx" if k == "device" else v for k, v in sample.kwargs.items()}
        result = op(on("mpsx", sample.input), *on("mpsx", sample.args), **on("mpsx", kwargs))
        if not isinstance(expected, torch.Tensor):
            assert result == expected
            continue
        assert result.stride() == expected.stride() or expected.numel() <= 1
        torch.testing.assert_close(on("cpu", result), expected, equal_nan=True)


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
def test_searches(dtype: torch.dtype) -> None:
    rows = make("contiguous", dtype).sort(-1).values
    x = make("transposed", dtype, seed=1)
    for right in (False, True):
        assert torch.equal(torch.searchsorted(rows.to("mpsx"), x.contiguous().to("mpsx"), right=right).cpu(),
                           torch.searchsorted(rows, x.contiguous(), right=right))  # fmt: skip
        line = rows[0, 0]
        assert torch.equal(torch.bucketize(x.to("mpsx"), line.to("mpsx"), right=right, out_int32=True).cpu(),
                           torch.bucketize(x, line, right=right, out_int32=True))  # fmt: skip
    unsorted = make("contiguous", dtype)
    order = unsorted.argsort(-1)
    assert torch.equal(torch.searchsorted(unsorted.to("mpsx"), rows.to("mpsx"), sorter=order.to("mpsx")).cpu(),
                       torch.searchsorted(unsorted, rows, sorter=order))  # fmt: skip


def test_searches_of_nan_and_nothing() -> None:
    line = torch.tensor([0.0, 1.0, 2.0, float("inf"), float("nan")])
    x = torch.tensor([float("nan"), float("-inf"), float("inf"), 1.0, -0.0])
    for right in (False, True):
        assert torch.equal(torch.searchsorted(line.to("mpsx"), x.to("mpsx"), right=right).cpu(),
                           torch.searchsorted(line, x, right=right))  # fmt: skip
    empty = torch.empty(0, device="mpsx")
    assert torch.searchsorted(empty, x.to("mpsx")).cpu().tolist() == [0] * 5
    assert torch.searchsorted(line.to("mpsx"), empty).shape == (0,)
    assert torch.searchsorted(line.to("mpsx"), 1.5).item() == 2


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


def test_embedding_with_a_longest_norm() -> None:
    weight, index = torch.randn(10, 4) * 3, torch.tensor([1, 3, 3, 7])
    device = weight.to("mpsx")
    result = F.embedding(index.to("mpsx"), device, max_norm=1.0)
    expected = F.embedding(index, weight, max_norm=1.0)
    torch.testing.assert_close(result.cpu(), expected)
    torch.testing.assert_close(device.cpu(), weight)


def test_out_forms_of_other_layouts() -> None:
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


def test_fourier_transforms_are_the_librarys() -> None:
    x = torch.randn(3, 17)
    with mpsx.profiler.launch_log() as log:
        result = torch.fft.irfft(torch.fft.rfft(x.to("mpsx")), n=17)
    torch.testing.assert_close(result.cpu(), x)
    assert {"vendor:aten::_fft_r2c", "vendor:aten::_fft_c2r"} <= {entry for entry in log if entry.startswith("vendor")}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: torch.trace(x[0]), "expected a matrix"),
        (lambda x: torch.eye(-1, device="mpsx"), "n must be greater"),
        (lambda x: x.masked_scatter_(torch.isfinite(x), x[:1, :1]), "as many as mask selects"),
        (lambda x: torch.repeat_interleave(torch.tensor([1, -1], device="mpsx")), "can not be negative"),
        (lambda x: torch.histc(x, 4, 2, 1), "min < max"),
        (lambda x: F.softshrink(x, -1), "greater or equal to 0"),
        (lambda x: F.glu(x, 0), "even"),
        (lambda x: torch.searchsorted(x[0], x.half(), side="top"), "side can only be"),
        (lambda x: torch.bucketize(x, x), "1 dimension"),
    ],
)
def test_errors(call: Callable[[torch.Tensor], object], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(torch.randn(5, 6, device="mpsx"))
