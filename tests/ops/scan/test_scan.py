"""cumsum, cumprod, logcumsumexp, cummax, cummin: values, layouts, dimensions, special values, out=, in-place."""

from __future__ import annotations

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import DTYPES, FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

INF, NAN = float("inf"), float("nan")
SUMS = {"cumsum": torch.cumsum, "cumprod": torch.cumprod}
EXTREMA = {"cummax": torch.cummax, "cummin": torch.cummin}


def check(function, x: torch.Tensor, *arguments: object, kernel: str | None = None, **options: object) -> None:
    """Check that `function` matches the CPU on the device and launches `kernel`."""
    with mpsx.profiler.launch_log() as log:
        result = function(on_device(x), *arguments, **options)
    if kernel and x.numel():
        assert any(f"{entry}_".startswith(f"kernel:{kernel}_") for entry in log), log
    expected = function(x, *arguments, **options)
    for ours, theirs in zip(*([r] if torch.is_tensor(r) else r for r in (result, expected)), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str, layout: str) -> None:
    for dtype in DTYPES["ALL"]:
        x = make(layout, dtype)
        for dim in range(-x.dim(), max(x.dim(), 1)):
            check(SUMS[name], x, dim, kernel=name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_logcumsumexp(layout: str) -> None:
    for dtype in FLOAT:
        x = make(layout, dtype)
        for dim in range(max(x.dim(), 1)):
            check(torch.logcumsumexp, x, dim, kernel="logcumsumexp")


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
def test_few_columns(columns: int) -> None:
    for dtype in DTYPES["REAL"]:
        shape = 3, 33, columns
        x = torch.randn(shape).to(dtype) if dtype in FLOAT else torch.randint(0, 3, shape).to(dtype)
        for function in (*SUMS.values(), torch.cummax, torch.cummin, *([torch.logcumsumexp] if dtype in FLOAT else [])):
            check(function, x, 1)
    z = torch.randn(300, dtype=torch.complex64)
    check(torch.cumsum, z, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", EXTREMA)
def test_extrema(name: str, layout: str) -> None:
    for dtype in DTYPES["ALL"]:
        x = make(layout, dtype)  # integers have many ties, and the last one wins
        for dim in range(max(x.dim(), 1)):
            shape = "rows" if dim == x.dim() - 1 else "columns"
            check(EXTREMA[name], x, dim, kernel=f"{name}_{shape}_{TAGS[dtype]}" if x.dim() else None)


@pytest.mark.parametrize("size", [1, 3, 5, 255, 256, 257, 1023, 1025, 5000])
def test_sizes(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(3, size, generator=generator)
    for function in (*SUMS.values(), torch.logcumsumexp, *EXTREMA.values()):
        check(function, x, 1)
        check(function, x.t().contiguous(), 0)


@pytest.mark.parametrize("size", [1, 31, 33, 257])
def test_many_rows(size: int) -> None:
    """The host driver scans 16 rows at a time, so 70 rows leave a remainder."""
    for dtype in DTYPES["ALL"]:
        # Keep products within the range of float32. The CPU multiplies in double and would not overflow.
        x = (torch.rand(70, size) * 0.5 + 0.75 if dtype in FLOAT else torch.randint(4, (70, size))).to(dtype)
        if dtype in FLOAT:
            x[3, size // 2], x[5, size // 3], x[66, 0] = NAN, INF, -INF
        for function in (*SUMS.values(), *EXTREMA.values(), *((torch.logcumsumexp,) if dtype in FLOAT else ())):
            check(function, x, 1)
        y = x[:, ::2].clone().to("mpsx")
        if dtype != torch.bool:
            torch.testing.assert_close(y.cumsum_(1).cpu(), x[:, ::2].clone().cumsum_(1), equal_nan=True)


@pytest.mark.parametrize("rows", [1, 80])
def test_long_rows_of_extrema(rows: int) -> None:
    """Cover ascending rows, descending rows, ties, and constant rows that contain a NaN or a late extremum."""
    steps = torch.arange(200).div(3, rounding_mode="floor")
    for dtype in DTYPES["REAL"]:
        quiet = torch.full((200,), 50)
        quiet[0], quiet[77], quiet[140], quiet[190] = 60, 61, 61, 40
        x = torch.stack([steps, steps.flip(0), quiet, quiet.neg().add(100)]).to(dtype).repeat(rows, 1)
        if dtype in FLOAT:
            x[2, 150] = NAN
            x[3, 33] = -INF
        for function in EXTREMA.values():
            check(function, x, 1)
            check(function, x[2:3], 1)


def test_sum_after_an_infinite_element_is_infinite() -> None:
    x = torch.zeros(40)
    x[3] = INF
    for function in (torch.cumsum, torch.logcumsumexp):
        for y in (x, x.expand(70, 40), x.expand(70, 40).t()):
            check(function, y, int(y.dim() == 2 and y.size(1) == 40))


def test_accuracy_of_many_rows() -> None:
    x = torch.rand(64, 20_000, generator=torch.Generator().manual_seed(0)) + 1000
    exact = x.double().cumsum(1)
    assert ((x.to("mpsx").cumsum(1).cpu() - exact).abs() / exact).max() < 2**-23


def test_accuracy_of_long_sums() -> None:
    x = torch.rand(1_000_000, generator=torch.Generator().manual_seed(0)) + 1000
    exact = x.double().cumsum(0)
    assert ((x.to("mpsx").cumsum(0).cpu() - exact).abs() / exact).max() < 2**-23
    x = torch.rand(100_000, generator=torch.Generator().manual_seed(0)) * 2e-3 + 0.999
    exact = x.double().cumprod(0)
    assert ((x.to("mpsx").cumprod(0).cpu() - exact).abs() / exact).max() < 2**-23
    x = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
    exact = x.double().logcumsumexp(0)
    assert (x.to("mpsx").logcumsumexp(0).cpu() - exact).abs().max() < 4e-6
    slow = torch.linspace(-9, 2, 100_000)  # every element is a new maximum
    exact = slow.double().logcumsumexp(0)
    assert (slow.to("mpsx").logcumsumexp(0).cpu() - exact).abs().max() < 2e-6


def test_special_values() -> None:
    x = torch.tensor([[1, INF, 2, -INF, 3], [NAN, 1, 2, 3, 4], [-INF, -INF, 0, -INF, INF], [1, NAN, INF, 5, NAN],
                      [-0.0, 0.0, -0.0, 0.0, 0.0], [3e38, 3e38, 1, -1, 2]])
    for function in (*SUMS.values(), torch.logcumsumexp, *EXTREMA.values()):
        check(function, x[:5], 1)
        check(function, x[:5], 0)
    check(torch.cumprod, x[5:], 1)


@pytest.mark.parametrize("name", SUMS)
def test_types(name: str) -> None:
    x = torch.randint(-3, 4, (6, 7))
    for given in (torch.int8, torch.int64, torch.float16, torch.float32):
        for wanted in (torch.float32, torch.bfloat16, torch.int32, torch.int64):
            check(SUMS[name], x.to(given), 1, dtype=wanted)


@pytest.mark.parametrize("name", SUMS)
def test_out_and_in_place(name: str) -> None:
    x = torch.randn(4, 5)
    expected = SUMS[name](x, 0)
    d = x.to("mpsx")
    for out in (torch.empty(4, 5, device="mpsx"), torch.empty(5, 4, device="mpsx").t(), torch.empty(0, device="mpsx")):
        assert SUMS[name](d, 0, out=out) is out
        torch.testing.assert_close(out.cpu(), expected)
    for y in (d.clone(), d.t().clone().t(), torch.empty(4, 10, device="mpsx")[:, ::2].copy_(d)):
        getattr(y, name + "_")(0)
        torch.testing.assert_close(y.cpu(), expected)
    with pytest.raises(RuntimeError, match="must match the dtype of self"):
        getattr(d, name + "_")(0, dtype=torch.float64)
    with pytest.raises(IndexError, match="Dimension out of range"):
        SUMS[name](d, 2)


def test_out_of_logcumsumexp_and_extrema() -> None:
    x = torch.randn(4, 5)
    d = x.to("mpsx")
    out = torch.empty(5, 4, device="mpsx").t()
    torch.testing.assert_close(torch.logcumsumexp(d, 0, out=out).cpu(), torch.logcumsumexp(x, 0))
    for function in EXTREMA.values():
        values, indices = torch.empty(5, 4, device="mpsx").t(), torch.empty(0, dtype=torch.long, device="mpsx")
        function(d, 1, out=(values, indices))
        expected = function(x, 1)
        assert torch.equal(values.cpu(), expected.values) and torch.equal(indices.cpu(), expected.indices)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
def test_backward(name: str) -> None:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    x[1, 2] = 0.0  # the gradient of cumprod has a separate code path for zeros
    weight = torch.randn(4, 6, generator=torch.Generator().manual_seed(2))
    gradients = []
    for device in ("cpu", "mpsx"):
        leaf = x.detach().to(device).requires_grad_()
        result = getattr(torch, name)(leaf, 1)
        ((result if torch.is_tensor(result) else result.values) * weight.to(device)).sum().backward()
        gradients.append(leaf.grad.cpu())
    torch.testing.assert_close(*gradients)
