"""sort, topk, kthvalue, median and nanmedian: values, indices, layouts, dimensions, special values, and out=."""

from __future__ import annotations

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import DTYPES, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

INF, NAN = float("inf"), float("nan")
SIZES = [1, 2, 127, 128, 129, 255, 256, 1000, 4097]  # sizes near the thresholds between the algorithms
ORDERED = [dtype for dtype in DTYPES["ALL"] if dtype != torch.bool]


def distinct(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Return rows of distinct elements, so that the indices are unique."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(shape[-1], generator=generator) for _ in range(torch.Size(shape[:-1]).numel())]
    return (torch.stack(rows).reshape(shape) - shape[-1] // 2).to(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sort(layout: str) -> None:
    for dtype in DTYPES["ALL"]:
        x = make(layout, dtype)
        d = on_device(x)
        for dim in range(-x.dim(), max(x.dim(), 1)):
            for descending in (False, True):
                with mpsx.profiler.launch_log() as log:
                    ours = torch.sort(d, dim=dim, descending=descending, stable=True)
                kernels = {f"kernel:sort_{shape}_{TAGS[dtype]}" for shape in ("rows", "columns")}
                assert not x.numel() or kernels & set(log)
                theirs = torch.sort(x, dim=dim, descending=descending, stable=True)
                assert ours.values.stride() == theirs.values.stride()
                assert torch.equal(ours.values.cpu(), theirs.values)
                assert torch.equal(ours.indices.cpu(), theirs.indices)


@pytest.mark.parametrize("size", [1, 2, 7, 16])
def test_short_columns(size: int) -> None:
    """Short columns are sorted without a transpose."""
    for dtype in DTYPES["ALL"]:
        x = torch.randint(0, 5, (3, size, 130)).to(dtype)
        if dtype.is_floating_point:
            x[0, 0, ::3] = float("nan")
        for descending in (False, True):
            with mpsx.profiler.launch_log() as log:
                ours = torch.sort(on_device(x), dim=1, descending=descending, stable=True)
            assert f"kernel:sort_columns_{TAGS[dtype]}" in log
            theirs = torch.sort(x, dim=1, descending=descending, stable=True)
            torch.testing.assert_close(ours.values.cpu(), theirs.values, rtol=0, atol=0, equal_nan=True)
            assert torch.equal(ours.indices.cpu(), theirs.indices)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES["ALL"])
def test_sizes_and_ties(size: int, dtype: torch.dtype) -> None:
    x = torch.randint(0, 2 if dtype == torch.bool else 100, (3, size), generator=torch.Generator().manual_seed(size))
    x = x.to(dtype)
    if dtype.is_floating_point:
        x = (x - 50) / 8
    elif dtype.is_signed:
        x = x - 50
    for descending in (False, True):
        ours = torch.sort(x.to("mpsx"), dim=1, descending=descending, stable=True)
        theirs = torch.sort(x, dim=1, descending=descending, stable=True)
        assert torch.equal(ours.values.cpu(), theirs.values) and torch.equal(ours.indices.cpu(), theirs.indices)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integer_limits(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    x = torch.tensor([info.max, info.min, 0, info.max - 1, info.min + 1, 1, -1 if info.min else 7] * 30, dtype=dtype)
    assert torch.equal(x.to("mpsx").sort().values.cpu(), x.sort().values)


@pytest.mark.parametrize("dtype", DTYPES["FLOAT"])
def test_special_values(dtype: torch.dtype) -> None:
    few = torch.tensor([NAN, 1.0, -INF, 0.0, -0.0, INF, NAN, -1.0, -NAN, 1e-7, -1e-7], dtype=dtype)
    for x in (few, few.repeat(20)):
        for descending in (False, True):
            ours = torch.sort(x.to("mpsx"), dim=0, descending=descending, stable=True)
            theirs = torch.sort(x, dim=0, descending=descending, stable=True)
            torch.testing.assert_close(ours.values.cpu(), theirs.values, equal_nan=True, rtol=0, atol=0)
            assert torch.equal(ours.indices.cpu(), theirs.indices)
        for k in (1, 3, x.numel()):
            for largest in (False, True):
                ours, theirs = (torch.topk(t, k, largest=largest).values.cpu() for t in (x.to("mpsx"), x))
                torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=0, atol=0)
        for function in (torch.median, torch.nanmedian):
            torch.testing.assert_close(function(x.to("mpsx")).cpu(), function(x), equal_nan=True)
            ours, theirs = function(x.to("mpsx"), 0), function(x, 0)
            torch.testing.assert_close(ours.values.cpu(), theirs.values, equal_nan=True)
            torch.testing.assert_close(x[ours.indices.cpu()], theirs.values, equal_nan=True)
    all_nan = torch.full((5,), NAN, dtype=dtype)
    assert torch.isnan(all_nan.to("mpsx").nanmedian()).item()


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "empty"])
def test_topk(layout: str) -> None:
    for dtype in ORDERED:
        x = make(layout, dtype)
        d = on_device(x)
        for dim in range(max(x.dim(), 1)):
            size = x.size(dim) if x.dim() else 1
            for k in {0, 1, size // 2, size}:
                for largest in (False, True):
                    ours, theirs = (torch.topk(t, k, dim, largest) for t in (d, x))
                    assert torch.equal(ours.values.cpu(), theirs.values)
                    picked = torch.gather(x, dim, ours.indices.cpu()) if x.dim() else x
                    assert torch.equal(picked if k else theirs.values, theirs.values)
                    if k:  # no index occurs twice
                        indices = ours.indices.cpu().sort(dim if x.dim() else 0).values
                        assert k == 1 or (indices.diff(dim=dim) > 0).all()


@pytest.mark.parametrize("size", SIZES)
def test_topk_sizes(size: int) -> None:
    x = distinct(2, size, seed=size)
    for k in sorted({1, min(5, size), size // 2, size} - {0}):
        for largest in (False, True):
            ours, theirs = (torch.topk(t, k, 1, largest) for t in (x.to("mpsx"), x))
            assert torch.equal(ours.values.cpu(), theirs.values) and torch.equal(ours.indices.cpu(), theirs.indices)
            some = torch.topk(x.to("mpsx"), k, 1, largest, sorted=False)
            assert torch.equal(some.indices.cpu().sort(1).values, theirs.indices.sort(1).values)
            assert torch.equal(some.values.cpu(), x.gather(1, some.indices.cpu()))


@pytest.mark.parametrize("k", [1, 8, 31, 32, 33])
def test_topk_with_ties(k: int) -> None:
    """Among equal elements, topk selects the first ones, in order. Cover sorted and constant rows, and NaN."""
    few = torch.randint(0, 4, (3, 1265), generator=torch.Generator().manual_seed(k))
    steps = torch.arange(1265)[None]
    rows = torch.cat([few, steps, steps.flip(1), torch.full((1, 1265), 9)])
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.int16):
        x = rows.to(dtype)
        if dtype.is_floating_point:
            x[0, ::7] = NAN
            x[1, ::5] = -0.0
        for largest in (False, True):
            ours = torch.topk(x.to("mpsx"), k, 1, largest)
            theirs = torch.sort(x, dim=1, descending=largest, stable=True)
            assert torch.equal(ours.indices.cpu(), theirs.indices[:, :k])
            torch.testing.assert_close(ours.values.cpu(), theirs.values[:, :k], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("size", SIZES)
def test_kthvalue_and_medians(size: int) -> None:
    x = distinct(4, size, seed=size)
    d = x.to("mpsx")
    for k in sorted({1, size // 3 + 1, size}):
        for keepdim in (False, True):
            ours, theirs = torch.kthvalue(d, k, 1, keepdim), torch.kthvalue(x, k, 1, keepdim)
            assert torch.equal(ours.values.cpu(), theirs.values) and torch.equal(ours.indices.cpu(), theirs.indices)
    x[1, size // 2] = NAN
    d = x.to("mpsx")
    for function in (torch.median, torch.nanmedian):
        for y, z in ((d, x), (d.t(), x.t())):
            for dim in (0, 1):
                ours, theirs = function(y, dim), function(z, dim)
                torch.testing.assert_close(ours.values.cpu(), theirs.values, equal_nan=True)
                at = ours.indices.cpu().unsqueeze(dim)
                torch.testing.assert_close(z.gather(dim, at).squeeze(dim), theirs.values, equal_nan=True)
        torch.testing.assert_close(function(d).cpu(), function(x), equal_nan=True)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "empty"])
def test_layouts_of_median_and_kthvalue(layout: str) -> None:
    for dtype in ORDERED:
        x = make(layout, dtype)
        d = on_device(x)
        x = x.contiguous()  # on the CPU, the median of an expanded tensor reads out of bounds
        for dim in range(max(x.dim(), 1)):
            for keepdim in (False, True):
                ours, theirs = torch.median(d, dim, keepdim), torch.median(x, dim, keepdim)
                assert torch.equal(ours.values.cpu(), theirs.values) and ours.indices.shape == theirs.indices.shape
                ours, theirs = torch.kthvalue(d, 1, dim, keepdim), torch.kthvalue(x, 1, dim, keepdim)
                assert torch.equal(ours.values.cpu(), theirs.values) and ours.indices.shape == theirs.indices.shape


def test_out() -> None:
    x = distinct(5, 7)
    d = x.to("mpsx")
    for function in (lambda t, **o: torch.sort(t, 1, **o), lambda t, **o: torch.topk(t, 3, 1, **o),
                     lambda t, **o: torch.kthvalue(t, 3, 1, **o), lambda t, **o: torch.median(t, 1, **o)):
        values, indices = function(x)
        transposed = torch.empty(values.t().shape if values.dim() == 2 else (10,), device="mpsx")
        out = transposed.t() if values.dim() == 2 else transposed[::2]
        out_indices = torch.empty(0, dtype=torch.long, device="mpsx")
        result = function(d, out=(out, out_indices))
        assert result[0] is out and result[1] is out_indices
        assert torch.equal(out.cpu(), values) and torch.equal(out_indices.cpu(), indices)
    y = d.clone()
    torch.sort(y, 1, out=(y, torch.empty(0, dtype=torch.long, device="mpsx")))
    assert torch.equal(y.cpu(), x.sort(1).values)
    integers = torch.tensor([[5, 3, 9, 1, 7]], device="mpsx")  # also the out= tensor for the indices
    values, indices = torch.sort(integers, out=(torch.empty_like(integers), integers))
    assert values.tolist() == [[1, 3, 5, 7, 9]] and indices.tolist() == [[3, 1, 0, 4, 2]]


def test_argsort_msort_and_quantile() -> None:
    x = distinct(6, 40)
    d = x.to("mpsx")
    assert torch.equal(torch.argsort(d, 1).cpu(), torch.argsort(x, 1))
    assert torch.equal(torch.msort(d).cpu(), torch.msort(x))
    torch.testing.assert_close(torch.quantile(d, 0.3, dim=1).cpu(), torch.quantile(x, 0.3, dim=1))


def test_backward() -> None:
    x = distinct(4, 9)
    for function in (lambda t: t.sort(1, descending=True).values, lambda t: t.topk(4, 1).values,
                     lambda t: t.kthvalue(3, 1).values, lambda t: t.median(1).values, lambda t: t.median()):
        gradients = []
        for device in ("cpu", "mpsx"):
            leaf = x.detach().to(device).requires_grad_()
            result = function(leaf)
            (result * torch.arange(result.numel(), device=device).view(result.shape)).sum().backward()
            gradients.append(leaf.grad.cpu())
        torch.testing.assert_close(*gradients)


def test_errors() -> None:
    x = torch.ones(3, 4, device="mpsx")
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        torch.topk(x, 5)
    with pytest.raises(RuntimeError, match="selected number k out of range"):
        torch.kthvalue(x, 5)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.sort(x, 2)
    with pytest.raises(IndexError, match="kthvalue"):
        torch.kthvalue(torch.ones(3, 0, device="mpsx"), 1, 1)
