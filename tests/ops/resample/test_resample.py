"""Interpolation, reflection and replication padding, 3-D average pooling: values, layouts, gradients, errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tables import FLOAT

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

INTERPOLATIONS = {
    "nearest1d": (3, {"size": 11, "mode": "nearest"}),
    "nearest2d": (4, {"scale_factor": (1.7, 0.6), "mode": "nearest"}),
    "nearest3d": (5, {"size": (3, 9, 4), "mode": "nearest"}),
    "exact1d": (3, {"scale_factor": 0.7, "mode": "nearest-exact"}),
    "exact2d": (4, {"size": (13, 4), "mode": "nearest-exact"}),
    "exact3d": (5, {"scale_factor": (2, 0.5, 1.3), "mode": "nearest-exact"}),
    "linear": (3, {"size": 13, "mode": "linear"}),
    "linear aligned": (3, {"scale_factor": 2.3, "mode": "linear", "align_corners": True}),
    "bilinear": (4, {"scale_factor": (2.5, 0.4), "mode": "bilinear"}),
    "bilinear aligned": (4, {"size": (9, 17), "mode": "bilinear", "align_corners": True}),
    "bilinear, recomputed scale": (4, {"scale_factor": 1.9, "mode": "bilinear", "recompute_scale_factor": True}),
    "bilinear, antialias": (4, {"size": (3, 4), "mode": "bilinear", "antialias": True}),
    "trilinear": (5, {"size": (7, 3, 9), "mode": "trilinear"}),
    "trilinear aligned": (5, {"scale_factor": 1.5, "mode": "trilinear", "align_corners": True}),
    "bicubic": (4, {"size": (11, 5), "mode": "bicubic"}),
    "bicubic aligned": (4, {"scale_factor": 2, "mode": "bicubic", "align_corners": True}),
    "bicubic, antialias": (4, {"size": (4, 3), "mode": "bicubic", "antialias": True}),
    "area": (4, {"size": (3, 4), "mode": "area"}),
}
PADDINGS = {
    "1d": (3, (2, 3)),
    "1d, unbatched": (2, (1, 0)),
    "2d": (4, (2, 1, 0, 3)),
    "2d, unbatched": (3, (3, 3, 1, 1)),
    "2d, negative": (4, (-1, 2, 1, -2)),
    "3d": (5, (1, 2, 2, 0, 1, 1)),
    "3d, unbatched": (4, (1, 1, 0, 2, 1, 0)),
}
POOLINGS = {
    "size 3": lambda x: F.avg_pool3d(x, 3),
    "overlapping": lambda x: F.avg_pool3d(x, (2, 3, 2), (1, 2, 1), (1, 1, 0)),
    "excluding padding": lambda x: F.avg_pool3d(x, 3, 2, 1, count_include_pad=False),
    "ceil mode": lambda x: F.avg_pool3d(x, 3, 2, 1, ceil_mode=True),
    "with a divisor": lambda x: F.avg_pool3d(x, 2, divisor_override=5),
    "adaptive": lambda x: F.adaptive_avg_pool3d(x, (2, 4, 3)),
    "adaptive, whole image": lambda x: F.adaptive_avg_pool3d(x, 1),
    "adaptive, upsampling": lambda x: F.adaptive_avg_pool3d(x, (9, 7, 8)),
}


def image(dims: int, dtype: torch.dtype, layout: str = "contiguous") -> torch.Tensor:
    shape = (2, 3, 6, 5, 7)[:dims] if dims > 3 else (2, 3, 8)[:dims]
    wide = torch.randn(*(n + 2 for n in shape)).to(dtype)
    x = wide[tuple(slice(1, -1) for _ in shape)]
    if layout == "contiguous":
        return x.contiguous()
    if layout == "slice":
        return x
    if layout == "expanded":
        return x[:1].expand(shape)
    return x.contiguous(memory_format=torch.channels_last if dims == 4 else torch.channels_last_3d)


def compare(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    """Compare values and gradients with float64 results rounded to the dtype."""
    leaf = x.detach().to("mpsx").requires_grad_()
    wide = x.detach().double().requires_grad_()
    result, exact = function(leaf), function(wide)
    assert result.shape == exact.shape
    assert result.stride() == function(x.float()).stride()  # the CPU kernels do not support half precision
    torch.testing.assert_close(result.detach().cpu(), exact.detach().to(x.dtype))
    g = torch.randn(result.shape).to(x.dtype)
    result.backward(g.to("mpsx"))
    exact.backward(g.double())
    torch.testing.assert_close(leaf.grad.cpu(), wide.grad.to(x.dtype))


def layouts(dims: int) -> tuple[str, ...]:
    return ("contiguous", "slice", "expanded") + (("channels_last",) if dims in (4, 5) else ())


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", INTERPOLATIONS)
def test_interpolate(name: str, dtype: torch.dtype) -> None:
    dims, options = INTERPOLATIONS[name]
    for layout in layouts(dims):
        compare(lambda x: F.interpolate(x, **options), image(dims, dtype, layout))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("name", PADDINGS)
def test_pad(name: str, mode: str) -> None:
    dims, padding = PADDINGS[name]
    for dtype in FLOAT:
        for layout in layouts(dims):
            compare(lambda x: F.pad(x, padding, mode=mode), image(dims, dtype, layout))
    integers = torch.randint(-9, 9, image(dims, torch.float32).shape)
    for dtype in (torch.int64, torch.int32, torch.bool):
        x = integers.to(dtype)
        try:
            expected = F.pad(x, padding, mode=mode)
        except RuntimeError:  # without CPU support for this dtype, there is no reference
            continue
        assert torch.equal(F.pad(x.to("mpsx"), padding, mode=mode).cpu(), expected)


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", POOLINGS)
def test_avg_pool3d(name: str, dtype: torch.dtype) -> None:
    for layout in layouts(5):
        compare(POOLINGS[name], image(5, dtype, layout))
    compare(POOLINGS[name], image(4, dtype))


def test_signed_zeros_and_infinities_are_copied() -> None:
    x = torch.tensor([[-0.0, float("inf"), 0.0, -float("inf"), float("nan"), -0.0]])
    for function in (
        lambda x: F.pad(x, (2, 2), mode="reflect"),
        lambda x: F.pad(x, (2, 2), mode="replicate"),
        lambda x: F.interpolate(x[None], size=12, mode="nearest"),
    ):
        expected, result = function(x), function(x.to("mpsx")).cpu()
        assert torch.equal(torch.signbit(result), torch.signbit(expected))
        torch.testing.assert_close(result, expected, equal_nan=True, rtol=0, atol=0)


def test_out() -> None:
    x = torch.randn(2, 3, 6, 7)
    y = x.to("mpsx")
    for overload, arguments in (
        (torch.ops.aten.upsample_bilinear2d.out, ([9, 11], False)),
        (torch.ops.aten.reflection_pad2d.out, ([1, 2, 3, 0],)),
        (torch.ops.aten.replication_pad2d.out, ([1, 2, 3, 0],)),
    ):
        expected = overload(x, *arguments, out=torch.empty(0))
        strided = torch.empty(expected.shape[::-1], device="mpsx").permute(3, 2, 1, 0)
        for out in (torch.empty(0, device="mpsx"), strided):
            assert overload(y, *arguments, out=out) is out
            torch.testing.assert_close(out.cpu(), expected)
        with pytest.raises(RuntimeError, match=r"dtype|scalar type"), mpsx.fallback.using_mode("silent"):
            overload(y, *arguments, out=torch.empty(0, dtype=torch.int32, device="mpsx"))


@pytest.mark.parametrize("fmt", [torch.contiguous_format, torch.channels_last], ids=["planes", "channels_last"])
@pytest.mark.parametrize("channels", [3, 7])  # PyTorch implements each channel count separately
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_uint8_images(mode: str, channels: int, fmt: torch.memory_format) -> None:
    """Compare with exact results, because PyTorch rounds after each dimension and uses 15-bit weights."""
    x = torch.randint(0, 256, (2, channels, 13, 17), dtype=torch.uint8).contiguous(memory_format=fmt)
    y = x.to("mpsx")
    for size in ((26, 34), (7, 5), (13, 51), (27, 6)):
        variants = [{}]
        if mode.startswith("bi"):
            variants += [{"align_corners": True}, {"antialias": True}]
        for options in variants:
            got, want = (F.interpolate(t, size, mode=mode, **options) for t in (y, x))
            assert torch.equal(got.cpu(), want)
            assert got.stride() == want.stride()


def test_empty_batch() -> None:
    x = torch.empty(0, 3, 6, 7, device="mpsx")
    assert F.interpolate(x, scale_factor=2, mode="bilinear").shape == (0, 3, 12, 14)
    assert F.pad(x, (1, 1, 1, 1), mode="reflect").shape == (0, 3, 8, 9)
    assert F.avg_pool3d(x[:, None], 2).shape == (0, 1, 1, 3, 3)


def test_large() -> None:
    x = torch.randn(4, 16, 128, 160)
    result = F.interpolate(x.to("mpsx"), scale_factor=2, mode="bilinear")
    torch.testing.assert_close(result.cpu(), F.interpolate(x, scale_factor=2, mode="bilinear"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.pad(x, (7, 0, 0, 0), mode="reflect"), "less than the"),
        (lambda x: F.pad(x, (-4, -4, 0, 0), mode="replicate"), "too small|negative dimension"),
        (lambda x: F.interpolate(x, size=(0, 3), mode="bilinear"), "greater than 0"),
        (lambda x: F.avg_pool3d(x, 2, padding=3), "at most half"),
        (lambda x: F.adaptive_avg_pool3d(x, (-1, 2, 2)), "greater than or equal to 0"),
    ],
)
def test_errors(call: Callable[[torch.Tensor], torch.Tensor], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(torch.randn(2, 3, 6, 7, device="mpsx"))
