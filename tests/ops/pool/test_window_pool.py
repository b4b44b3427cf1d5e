"""max_pool3d, adaptive and fractional pooling, and max_unpool: values, indices, gradients, layouts, and errors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from deferred_errors import raises_after_sync
from float64_reference import compare
from layouts import on_device
from tables import DTYPES, FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

WINDOWS = {
    "size 3": {"kernel_size": 3},
    "overlapping": {"kernel_size": (2, 3, 2), "stride": (1, 2, 1), "padding": (1, 1, 0)},
    "dilated": {"kernel_size": (2, 2, 3), "stride": 1, "dilation": (2, 1, 2), "padding": (0, 1, 1)},
    "beyond the edge": {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
}


def distinct(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return distinct numbers, so that each maximum is unique in every dtype."""
    return torch.randperm(torch.Size(shape).numel()).view(shape).to(dtype)


@pytest.mark.parametrize("dtype", FLOAT)
def test_few_wide_windows(dtype: torch.dtype) -> None:
    """Use windows wide enough for vector loads. Of several maxima the first one wins, but of several NaNs the last."""
    x = torch.randint(0, 9, (3, 2, 33, 41)).to(dtype)
    x[0, 0, ::5, ::7] = float("nan")
    x[0, 1] = -float("inf")
    x[1, 0] = torch.where(torch.rand(33, 41) < 0.5, 0.0, -0.0)
    for size in (3, (2, 5), 1):
        ours = F.adaptive_max_pool2d(on_device(x), size, return_indices=True)
        theirs = F.adaptive_max_pool2d(x, size, return_indices=True)
        torch.testing.assert_close(ours[0].cpu(), theirs[0], rtol=0, atol=0, equal_nan=True)
        assert torch.equal(ours[1].cpu(), theirs[1])


@pytest.mark.parametrize("name", WINDOWS)
def test_max_pool3d(name: str) -> None:
    def pool(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.max_pool3d(x, return_indices=True, **WINDOWS[name])

    x = distinct((2, 3, 6, 5, 7))
    for image in (x, x[0], x[:, :, 1:, ::2], x.to(memory_format=torch.channels_last_3d)):
        compare(pool, image)
    last = torch.channels_last_3d
    assert pool(on_device(x.to(memory_format=last)))[0].is_contiguous(memory_format=last)
    for dtype in DTYPES["REAL"]:
        y = torch.randint(0, 100, (2, 6, 5, 7)).to(dtype)
        with mpsx.profiler.launch_log() as log:
            result = pool(on_device(y))
        assert f"kernel:window_max_{TAGS[dtype]}" in log
        for ours, theirs in zip(result, pool(y), strict=True):
            torch.testing.assert_close(ours.cpu(), theirs)


@pytest.mark.parametrize("size", [1, (3, 4), (7, 9), (None, 2)])
def test_adaptive(size: object) -> None:
    compare(lambda x: F.adaptive_max_pool2d(x, size, return_indices=True), distinct((2, 3, 6, 7)))
    compare(lambda x: F.adaptive_max_pool2d(x, size, return_indices=True), distinct((3, 6, 7)))
    if isinstance(size, int):
        compare(lambda x: F.adaptive_max_pool3d(x, size, return_indices=True), distinct((2, 3, 4, 6, 7)))
        compare(lambda x: F.adaptive_max_pool1d(x, size, return_indices=True), distinct((2, 3, 7)))
    else:
        compare(lambda x: F.adaptive_max_pool3d(x, (3, *size), return_indices=True), distinct((2, 3, 4, 6, 7)))
    x = distinct((2, 3, 6, 7)).to(memory_format=torch.channels_last)
    compare(lambda x: F.adaptive_max_pool2d(x, size), x)


@pytest.mark.parametrize("dtype", FLOAT)
def test_fractional(dtype: torch.dtype) -> None:
    samples = torch.rand(2, 3, 2).to(dtype)
    x, y = distinct((2, 3, 9, 11), dtype), distinct((2, 3, 6, 5, 7), dtype)
    for kernel, size in ((2, (4, 5)), ((3, 2), (7, 1)), (1, (9, 11))):
        def pool(x: torch.Tensor, s: torch.Tensor, kernel: object = kernel, size: object = size) -> torch.Tensor:
            return F.fractional_max_pool2d(x, kernel, size, _random_samples=s, return_indices=True)

        ours, theirs = pool(on_device(x), on_device(samples)), pool(x, samples)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a.cpu(), b)
    samples = torch.rand(2, 3, 3).to(dtype)
    def pool3d(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return F.fractional_max_pool3d(x, (2, 3, 2), (3, 2, 5), _random_samples=s, return_indices=True)

    for a, b in zip(pool3d(on_device(y), on_device(samples)), pool3d(y, samples), strict=True):
        torch.testing.assert_close(a.cpu(), b)


def test_fractional_gradients() -> None:
    samples = on_device(torch.rand(2, 3, 2))
    x = distinct((2, 3, 9, 11))
    ours, theirs = on_device(x).requires_grad_(), x.clone().requires_grad_()
    result = F.fractional_max_pool2d(ours, 3, (5, 4), _random_samples=samples)
    expected = F.fractional_max_pool2d(theirs, 3, (5, 4), _random_samples=samples.cpu())
    g = torch.randn(result.shape)
    result.backward(on_device(g))
    expected.backward(g)
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


@pytest.mark.parametrize("dtype", FLOAT)
def test_unpool(dtype: torch.dtype) -> None:
    pairs = ((F.max_pool1d, F.max_unpool1d), (F.max_pool2d, F.max_unpool2d), (F.max_pool3d, F.max_unpool3d))
    for dims, (pool, unpool) in enumerate(pairs, 1):
        x = torch.randn((2, 3, *(6, 8, 4)[:dims]))
        small, indices = pool(x, 2, return_indices=True)
        compare(lambda s, i, unpool=unpool: unpool(s, i, 2), small.to(dtype), indices)
        compare(lambda s, i, unpool=unpool: unpool(s, i, 2), small[0].to(dtype), indices[0])


def test_special_values() -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([nan, 1.0, -inf, -inf, inf, nan, 3.0, nan]).view(1, 1, 2, 2, 2)
    low = torch.full((1, 1, 3, 3), -inf)
    for function, t in ((F.max_pool3d, x), (F.adaptive_max_pool2d, low)):
        result, expected = function(on_device(t), 2, return_indices=True), function(t, 2, return_indices=True)
        for ours, theirs in zip(result, expected, strict=True):
            torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True)


def test_errors() -> None:
    x = torch.randn(1, 2, 4, 4, 4, device="mpsx")
    with pytest.raises(RuntimeError, match="pad should be"):
        F.max_pool3d(x, 2, padding=2)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.max_pool3d(x, 5)
    with pytest.raises(RuntimeError, match="too large relative to input size"):
        F.fractional_max_pool2d(x[0], 3, (4, 4))
    with raises_after_sync(RuntimeError, match="scatter"):
        F.max_unpool2d(x[0, :, :1, :1, 0], torch.full((2, 1, 1), 99, device="mpsx"), 2)


@pytest.mark.parametrize("stride", [2, 1])
def test_gradient_of_bad_indices(stride: int) -> None:
    """An index outside its plane raises an error, both for overlapping and for separate windows."""
    out = 2 if stride == 2 else 3
    x, g = torch.randn(1, 2, 4, 4, 4, device="mpsx"), torch.ones(1, 2, out, out, out, device="mpsx")
    indices = torch.zeros(1, 2, out, out, out, dtype=torch.long)
    indices[0, 1, 1, 1, 1] = 64
    with raises_after_sync((IndexError, RuntimeError), match="index 64 is out of bounds"):
        torch.ops.aten.max_pool3d_with_indices_backward(
            g, x, [2] * 3, [stride] * 3, [0] * 3, [1] * 3, False, indices.to("mpsx")
        )
