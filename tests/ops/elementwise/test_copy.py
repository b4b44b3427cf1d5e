"""Copies, casts, fills and ranges on the device."""

from __future__ import annotations

import itertools

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import DTYPES

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_clone_and_contiguous(layout: str) -> None:
    for dtype in (*DTYPES["ALL"], torch.float64, torch.complex64):
        x = make(layout, dtype)
        with mpsx.profiler.launch_log() as log:
            result = on_device(x).contiguous().clone(memory_format=torch.contiguous_format)
        torch.testing.assert_close(result.cpu(), x.contiguous())
        assert any(entry.startswith("kernel:copy_") for entry in log) or layout == "empty"


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_transposed(dtype: torch.dtype) -> None:
    """Cover sizes of several register tiles with an overlapping last tile, and sizes below one tile."""
    for height, width in itertools.product((1, 3, 4, 7, 8, 15, 16, 17, 65, 130), (2, 5, 16, 31, 129, 777)):
        for batch in (1, 3):
            x = torch.randint(-128, 128, (batch, height, width + 3), dtype=dtype)[:, :, 1:-2]
            out = torch.zeros(batch, width, height + 2, dtype=dtype, device="mpsx")
            out[:, :, :-2].copy_(on_device(x).mT)
            assert torch.equal(out[:, :, :-2].cpu(), x.mT)
            assert not out[:, :, -2:].any()
            assert torch.equal(on_device(x).mT.contiguous().cpu(), x.mT)


@pytest.mark.parametrize("short", [2, 3, 7])
def test_short_rows(short: int) -> None:
    """Permute tensors with short rows, as a pixel shuffle does. One shape has more rows than fit in a copy panel."""
    for shape in ((9, short), (5, 6, 4, short), (3, 130_001, short), (3, 2, 5, 2, 9, short)):
        x = torch.arange(torch.Size(shape).numel(), dtype=torch.int32).view(shape)
        for order in itertools.islice(itertools.permutations(range(len(shape))), 0, None, 7 if len(shape) > 5 else 1):
            expected = x.permute(order).contiguous()
            assert torch.equal(on_device(x).permute(order).contiguous().cpu(), expected)
            assert torch.equal(on_device(x).permute(order).float().cpu(), expected.float())
            target = torch.zeros(shape, dtype=torch.int32, device="mpsx").permute(order)
            target.copy_(expected.to("mpsx"))
            assert torch.equal(target.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_short_dense_rows(dtype: torch.dtype) -> None:
    """Copy rows of 2 to 144 bytes as one or a few wide elements, including at unaligned offsets."""
    for row, skipped, padding in itertools.product((2, 3, 4, 6, 8, 12, 16, 18, 32), (0, 1, 4), (0, 1, 8)):
        x = torch.randint(-128, 128, (7, 3, 21, row + skipped + padding), dtype=dtype)
        part = x[..., skipped : skipped + row]
        view = on_device(x)[..., skipped : skipped + row]
        for order in ((0, 1, 2, 3), (2, 0, 1, 3), (1, 2, 0, 3)):
            expected = part.permute(order).contiguous()
            assert torch.equal(view.permute(order).contiguous().cpu(), expected)
            target = torch.zeros(x.shape, dtype=dtype, device="mpsx")
            target[..., skipped : skipped + row].permute(order).copy_(on_device(expected))
            assert torch.equal(target.cpu()[..., skipped : skipped + row], part)
            assert target.count_nonzero() == part.count_nonzero()
    wide = torch.arange(64, dtype=dtype).view(4, 16)
    assert torch.equal(on_device(wide)[:, None].expand(4, 3, 16).contiguous().cpu(), wide[:, None].expand(4, 3, 16))


@pytest.mark.parametrize(("source", "target"), list(itertools.product(DTYPES["ALL"], DTYPES["ALL"])))
def test_casts(source: torch.dtype, target: torch.dtype) -> None:
    for layout in ("contiguous", "transposed", "slice", "scalar", "empty"):
        x = make(layout, source, low=0 if torch.uint8 in (source, target) else -100, high=100)
        torch.testing.assert_close(on_device(x).to(target).cpu(), x.to(target))


@pytest.mark.parametrize("target", [torch.bool, torch.int64, torch.int32])
def test_casts_of_special_values(target: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0, 0.4, -0.6, 1e-40, 2.5, -2.5, 1000.7])
    torch.testing.assert_close(x.to("mpsx").to(target).cpu(), x.to(target))
    if target == torch.bool:
        nan = torch.tensor([float("nan"), float("inf")])
        torch.testing.assert_close(nan.to("mpsx").to(target).cpu(), nan.to(target))


@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16])
def test_rounding_to_half_precision(target: torch.dtype) -> None:
    bits = torch.randint(-(2**31), 2**31 - 1, (200_000,), dtype=torch.int64, generator=torch.Generator().manual_seed(0))
    x = bits.to(torch.int32).view(torch.float32)
    result = x.to("mpsx").to(target).cpu()
    torch.testing.assert_close(result, x.to(target), rtol=0, atol=0, equal_nan=True)
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(target)
    torch.testing.assert_close(every.to("mpsx").float().cpu(), every.float(), rtol=0, atol=0, equal_nan=True)


def test_copy_broadcasts_and_checks() -> None:
    target = torch.zeros(3, 4, device="mpsx")
    target.copy_(torch.arange(4.0, device="mpsx"))
    torch.testing.assert_close(target.cpu(), torch.arange(4.0).expand(3, 4))
    with pytest.raises(RuntimeError, match=r"(must match|doesn't match|broadcast)"):
        target.copy_(torch.zeros(5, device="mpsx"))


def test_copy_to_and_from_cpu() -> None:
    x = make("slice", torch.float32)
    device = torch.empty(x.shape, device="mpsx").copy_(x)
    torch.testing.assert_close(device.cpu(), x)
    back = torch.empty(x.shape, dtype=torch.float64).copy_(device)
    torch.testing.assert_close(back, x.double())


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "expanded"])
def test_fill(layout: str) -> None:
    for dtype in (*DTYPES["ALL"], torch.float64, torch.complex64):
        x = make(layout, dtype)
        for value in (0, 1, 3):
            torch.testing.assert_close(on_device(x).fill_(value).cpu(), x.clone().fill_(value))
        torch.testing.assert_close(on_device(x).zero_().cpu(), torch.zeros_like(x))
        scalar = torch.tensor(2).to(dtype)
        torch.testing.assert_close(on_device(x).fill_(scalar).cpu(), x.clone().fill_(scalar))
    base = torch.zeros(6, 9, 12, device="mpsx")
    base[1:, 1:8, 2:11].fill_(1)
    assert base.sum().item() == 5 * 7 * 9


def test_factories() -> None:
    for function in (torch.zeros, torch.ones):
        torch.testing.assert_close(function(3, 4, device="mpsx").cpu(), function(3, 4))
    torch.testing.assert_close(torch.full((2, 3), 1.5, device="mpsx").cpu(), torch.full((2, 3), 1.5))
    torch.testing.assert_close(torch.full_like(torch.ones(3, device="mpsx"), 7).cpu(), torch.full((3,), 7.0))


@pytest.mark.parametrize(
    "arguments", [(5,), (2, 9), (2, 9, 3), (9, 2, -2), (0.0, 1.0, 0.1), (1, 1), (-3.5, 4.2, 0.7), (0, 70000)]
)
def test_arange(arguments: tuple) -> None:
    for dtype in (None, torch.float32, torch.float16, torch.int64, torch.int32):
        if dtype == torch.float16 and arguments[-1] == 70000:
            continue  # outside the range of float16
        if dtype in (torch.int64, torch.int32) and not all(isinstance(a, int) for a in arguments):
            continue  # PyTorch truncates these steps to 0 and rejects them
        expected = torch.arange(*arguments, dtype=dtype)
        torch.testing.assert_close(torch.arange(*arguments, dtype=dtype, device="mpsx").cpu(), expected)
    with pytest.raises(RuntimeError, match="step must be nonzero"):
        torch.arange(0, 5, 0, device="mpsx")


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 50, 100_001])
def test_linspace(steps: int) -> None:
    for start, end in ((0, 1), (-3.5, 4.2), (5, -5), (2, 2)):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            ours = torch.linspace(start, end, steps, dtype=dtype, device="mpsx").cpu()
            exact = torch.linspace(start, end, steps, dtype=torch.float64).to(dtype)
            torch.testing.assert_close(ours, exact)
            assert not steps or (ours[0] == exact[0] and ours[-1] == exact[-1])
    out = torch.empty(2 * steps, device="mpsx")[::2]
    torch.testing.assert_close(torch.linspace(0, 1, steps, out=out).cpu(), torch.linspace(0, 1, steps))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.complex64])
def test_linspace_of_no_steps(dtype: torch.dtype) -> None:
    assert torch.linspace(-4.5, 1e6, 0, dtype=dtype, device="mpsx").numel() == 0  # any endpoints are allowed


def test_rsub() -> None:
    a, b = torch.randn(3, 4), torch.randn(4)
    torch.testing.assert_close(torch.rsub(a.to("mpsx"), b.to("mpsx"), alpha=2).cpu(), torch.rsub(a, b, alpha=2))
    torch.testing.assert_close(torch.rsub(a.to("mpsx"), 3).cpu(), torch.rsub(a, 3))


@pytest.mark.parametrize("dtype", DTYPES["INT"])
def test_linspace_of_integers(dtype: torch.dtype) -> None:
    """The exact result is rounded toward zero. PyTorch's CPU kernel rounds the step instead, and is sometimes off by
    one."""
    low, high = (0, 255) if dtype == torch.uint8 else (-128, 127)
    for start, end in ((low, high), (high, low), (3, 5), (low + 1, low + 1), (7, 0)):
        for steps in (0, 1, 2, 5, 100, 1023, 1024, 1025, 3000):
            parts = max(steps - 1, 1)
            exact = [int((start * parts + i * (end - start)) / parts) for i in range(steps)]
            ours = torch.linspace(start, end, steps, dtype=dtype, device="mpsx").cpu()
            assert ours.tolist() == exact
