"""The reductions in metal/reduce/reduce.def: values, layouts, dimensions, dtypes, accuracy, errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import DTYPES, FLOAT, TAGS, rows
from threads import at_thread_counts

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

ROWS = {row[0]: row[1] for row in rows("reduce/reduce.def", "MPSX_REDUCTION", 2)}
OPS = {
    "sum": torch.sum,
    "nansum": torch.nansum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
    "any": torch.any,
    "all": torch.all,
    "norm_0": lambda x, dim, keepdim=False: torch.linalg.vector_norm(x, 0, dim, keepdim),
    "norm_1": lambda x, dim, keepdim=False: torch.linalg.vector_norm(x, 1, dim, keepdim),
    "norm_2": lambda x, dim, keepdim=False: torch.linalg.vector_norm(x, 2, dim, keepdim),
    "norm_p": lambda x, dim, keepdim=False: torch.linalg.vector_norm(x, 3.5, dim, keepdim),
    "norm_max": lambda x, dim, keepdim=False: torch.linalg.vector_norm(x, float("inf"), dim, keepdim),
    "norm_min": lambda x, dim, keepdim=False: torch.linalg.vector_norm(x, -float("inf"), dim, keepdim),
}


def compare(expected: torch.Tensor, result: torch.Tensor, **tolerance: float) -> None:
    assert result.device.type == "mpsx"
    assert result.stride() == expected.stride()
    torch.testing.assert_close(result.cpu(), expected, equal_nan=True, **tolerance)


def exact(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Return the CPU's result. For half dtypes, compute it in float64, because the CPU accumulates in half
    precision."""
    if x.dtype in (torch.float16, torch.bfloat16):
        return function(x.double()).to(function(x).dtype)
    return function(x)


def dim_sets(ndim: int) -> list[tuple[int, ...]]:
    return [dims for k in range(1, ndim + 1) for dims in itertools.combinations(range(ndim), k)] or [()]


def test_every_row_is_tested() -> None:
    assert set(OPS) | {"prod", "count_nonzero"} == set(ROWS)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPS)
def test_values(name: str, layout: str) -> None:
    for dtype in DTYPES[ROWS[name]]:
        x = make(layout, dtype)
        if dtype == torch.bool:
            x = x | make(layout, dtype, seed=1)  # makes all values in some rows true
        d = on_device(x)
        for dims in dim_sets(x.dim()):
            if x.numel() == 0 and name in ("amax", "amin", "norm_max", "norm_min") and 0 in dims:
                continue  # test_errors covers empty reductions
            for keepdim in (False, True):
                expected = exact(lambda t: OPS[name](t, dims, keepdim=keepdim), x)  # noqa: B023
                compare(expected, OPS[name](d, dims, keepdim=keepdim))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_prod_count_extrema(layout: str) -> None:
    for dtype in DTYPES["ALL"]:
        x = make(layout, dtype, low=-2, high=2)
        d = on_device(x)
        compare(exact(torch.prod, x), torch.prod(d))
        compare(torch.count_nonzero(x), torch.count_nonzero(d))
        if x.numel():
            compare(torch.max(x), torch.max(d))
            compare(torch.min(x), torch.min(d))
            for a, b in zip(torch.aminmax(x), torch.aminmax(d), strict=True):
                compare(a, b)
        for dim in range(x.dim()):
            compare(exact(lambda t: torch.prod(t, dim), x), torch.prod(d, dim))  # noqa: B023
            compare(exact(lambda t: torch.prod(t, dim, keepdim=True), x), torch.prod(d, dim, keepdim=True))  # noqa: B023
            compare(torch.count_nonzero(x, dim), torch.count_nonzero(d, dim))
            if x.size(dim):
                for a, b in zip(torch.aminmax(x, dim=dim), torch.aminmax(d, dim=dim), strict=True):
                    compare(a, b)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "nansum"])
def test_result_type(name: str) -> None:
    function = getattr(torch, name)
    for dtype in DTYPES["ALL"]:
        for target in (*FLOAT, torch.int64, torch.int32, torch.int8):
            if name == "mean" and not target.is_floating_point:
                continue
            if name == "nansum" and dtype.is_floating_point and not target.is_floating_point:
                continue
            x = make("slice", dtype, low=0, high=2)
            wide = torch.float64 if target.is_floating_point else target
            compare(function(x.to(target), dtype=wide).to(target), function(on_device(x), dtype=target))
            compare(function(x.to(target), 1, dtype=wide).to(target), function(on_device(x), 1, dtype=target))


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "any", "norm_2"])
def test_out(name: str) -> None:
    x = make("slice", torch.float32)
    function = getattr(torch, name) if name != "norm_2" else torch.linalg.vector_norm
    arguments = {"dim": 1}
    expected = function(x, **arguments)
    out = torch.empty(0, dtype=expected.dtype, device="mpsx")
    assert function(on_device(x), **arguments, out=out) is out
    compare(expected, out)
    strided = torch.empty(expected.shape[::-1], dtype=expected.dtype, device="mpsx").t()
    function(on_device(x), **arguments, out=strided)
    torch.testing.assert_close(strided.cpu(), expected)


SHAPES = [(1, 1_000_003), (1_000_003, 1), (3, 400_001), (100_003, 7), (7, 1000, 300), (64, 49, 9)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", FLOAT)
def test_large(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape).to(dtype)
    d = x.to("mpsx")
    for dims in dim_sets(x.dim()):
        exact = x.double().sum(dims)
        scale = x.double().abs().sum(dims).max().item()
        error = (d.sum(dims, dtype=torch.float32).cpu().double() - exact).abs().max().item()
        theirs = (x.sum(dims, dtype=torch.float32).double() - exact).abs().max().item()
        assert error <= max(theirs, 2e-7 * scale)
        compare(x.amax(dims), d.amax(dims))
        compare(torch.linalg.vector_norm(x.double(), dim=dims).to(dtype), torch.linalg.vector_norm(d, dim=dims))


def test_sum_is_accurate() -> None:
    """For any length, the error of a sum is only that of rounding the result."""
    x = torch.rand(4_000_037)
    exact = x.double().sum().item()
    assert abs(x.to("mpsx").sum().item() - exact) <= exact * 1e-7
    columns = torch.rand(400_037, 10)
    exact_columns = columns.double().sum(0)
    result = columns.to("mpsx").sum(0).cpu().double()
    assert ((result - exact_columns).abs() <= exact_columns * 1.5e-7).all()


WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def test_sum_of_repeated_and_strided_elements_is_accurate() -> None:
    long = torch.rand(100_000, generator=torch.Generator().manual_seed(0)) + 1
    for x in (torch.tensor(-0.2503), long, torch.complex(long, -long)):
        d = x.to("mpsx")
        for stride in (0, 5) if x.dim() else (0,):
            exact = x.as_strided((19_305,), (stride,)).to(WIDER[x.dtype]).sum().to(x.dtype)
            torch.testing.assert_close(d.as_strided((19_305,), (stride,)).sum().cpu(), exact, rtol=1e-6, atol=0)


def test_threads_do_not_change_results() -> None:
    x = torch.randn(300, 70_001, device="mpsx")
    results = at_thread_counts(lambda: [x.sum().cpu(), x.sum(0).cpu(), x.sum(1).cpu(), x.norm().cpu()])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert torch.equal(a, b)


def test_special_values() -> None:
    infinity, nan = float("inf"), float("nan")
    functions = (torch.sum, torch.mean, torch.prod, torch.amax, torch.amin, torch.nansum, torch.any, torch.all,
                 torch.max, torch.min, torch.norm, torch.count_nonzero)  # fmt: skip
    for values in ([1, nan, 3], [-infinity, infinity], [infinity, 1], [-infinity, -infinity], [-0.0, 0.0],
                   [nan, -infinity], [3e38, 3e38], [-nan, 1.0]):  # fmt: skip
        for repeat in (1, 40, 3000):
            x = torch.tensor(values * repeat)
            d = x.to("mpsx")
            for function in functions:
                compare(function(x), function(d))
            compare(torch.stack([x, x]).sum(0), torch.stack([d, d]).sum(0))
            compare(torch.stack([x, x]).amax(0), torch.stack([d, d]).amax(0))


def test_scattered_strides() -> None:
    x = torch.randn(2, 3, 4, 5, 6, 2, 3, 2).permute(7, 0, 5, 2, 1, 3, 6, 4)
    d = on_device(x)
    for dims in [(0, 2, 4, 6), (1, 3, 5, 7), (0, 1, 2), (5, 6, 7), (0, 7), (3,)]:
        compare(x.sum(dims), d.sum(dims))
        compare(x[:, :, ::2, 1:].amax(dims), d[:, :, ::2, 1:].amax(dims))


def test_gradients() -> None:
    for function in (
        lambda t: t.sum((0, 2)),
        lambda t: t.mean(1),
        lambda t: t.amax((0, 1)),
        lambda t: t.norm(dim=1),
        lambda t: t.prod(2),
        torch.max,
        lambda t: t.nansum(1),
        lambda t: torch.logsumexp(t, 1),
    ):
        x = make("transposed", torch.float32)
        a, b = x.clone().requires_grad_(), on_device(x).detach().requires_grad_()
        function(a).sum().backward()
        function(b).sum().backward()
        torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_kernel_ran() -> None:
    for dtype in DTYPES["ALL"]:
        x = make("contiguous", dtype).to("mpsx")
        with mpsx.profiler.launch_log() as log:
            x.sum(2)
            x.sum(0)
            x.sum((0, 1, 2))
        tag = TAGS[dtype]
        assert list(log) == [f"kernel:sum_rows_{tag}", f"kernel:sum_columns_{tag}", f"kernel:sum_rows_{tag}"]
    x = torch.ones(1000, 1000, device="mpsx")
    with mpsx.profiler.launch_log() as log:
        assert x.sum().item() == 1e6
    assert list(log)[:2] == ["kernel:sum_rows_f32", "kernel:sum_merge_f32"]


def test_errors() -> None:
    empty = torch.ones(0, 3, device="mpsx")
    for function in (torch.amax, torch.amin):
        with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
            function(empty, 0)
    with pytest.raises(RuntimeError, match="Expected reduction dim to be specified"):
        torch.max(empty)
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        torch.ones(3, dtype=torch.int64, device="mpsx").mean()
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.ones(3, device="mpsx").sum(1)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        torch.ones(3, 4, device="mpsx").sum((0, 0))
    with pytest.raises(RuntimeError, match="expected out of type"):
        torch.sum(torch.ones(3, device="mpsx"), 0, dtype=torch.float16, out=torch.empty(0, device="mpsx"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_repeated_elements(dtype: torch.dtype) -> None:
    """An element with stride 0 counts once per repetition."""
    base = torch.randint(-2, 3, (5, 1, 3, 1)).to(dtype)
    if dtype.is_floating_point:
        base[0, 0, 0, 0], base[1, 0, 1, 0] = float("inf"), float("nan")
    x = base.expand(5, 70, 3, 9)
    for dims in ((0,), (1,), (2,), (3,), (1, 3), (0, 1), (2, 3), (0, 1, 2, 3)):
        for name in ("sum", "prod", "amax", "any"):
            if name == "prod" and len(dims) > 1:
                continue
            where = dims[0] if name == "prod" else dims
            expected, result = (getattr(t, name)(where) for t in (x, on_device(x)))
            torch.testing.assert_close(result.cpu(), expected, equal_nan=True)
        if dtype.is_floating_point:
            expected, result = (torch.linalg.vector_norm(t, 3, dims) for t in (x, on_device(x)))
            torch.testing.assert_close(result.cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES["ALL"])
@pytest.mark.parametrize("count", [1, 63, 65, 16_384, 40_000, 300_001])
def test_aminmax_of_all_elements(dtype: torch.dtype, count: int) -> None:
    x = torch.randint(0, 100, (count,)).to(dtype)
    inputs = [x]
    if dtype in FLOAT:
        for position in (0, count // 2, count - 1):
            special = x.clone()
            special[position] = float("nan")
            inputs.append(special)
        inputs.append(torch.full_like(x, -float("inf")))
    for t in inputs:
        with mpsx.profiler.launch_log() as log:
            ours = torch.aminmax(on_device(t))
        assert f"kernel:aminmax_{TAGS[dtype]}" in log
        for a, b in zip(ours, torch.aminmax(t), strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", OPS)
def test_few_columns(name: str) -> None:
    """The host driver reduces several rows of narrow columns at a time. Cover row counts that leave a remainder."""
    for lines, columns in ((513, 2), (4099, 3), (128, 8), (129, 8), (3001, 7), (77, 31), (100, 32), (40000, 2)):
        x = torch.randn(2, lines, columns, generator=torch.Generator().manual_seed(lines))
        x[0, -1] = 40
        exact = OPS[name](x.double() if name not in ("any", "all") else x, 1)
        result = OPS[name](on_device(x), 1)
        torch.testing.assert_close(result.cpu().to(exact.dtype), exact, rtol=2e-6, atol=2e-5)
        torch.testing.assert_close(OPS[name](on_device(x[1]), 0).cpu().to(exact.dtype), exact[1], rtol=2e-6, atol=2e-5)
        skipping = OPS[name](on_device(x)[:, ::2], 1).cpu()
        exact = OPS[name](x[:, ::2].double() if name not in ("any", "all") else x[:, ::2], 1)
        torch.testing.assert_close(skipping.to(exact.dtype), exact, rtol=2e-6, atol=2e-5)
