"""F.unfold and F.fold (im2col, col2im), and Tensor.unfold: values in every dtype, gradients, layouts, and errors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from float64_reference import compare
from layouts import on_device
from tables import DTYPES, FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

WINDOWS = {
    "adjacent": {"kernel_size": 2, "stride": 2},
    "overlapping": {"kernel_size": (3, 2), "padding": (1, 1)},
    "dilated": {"kernel_size": (2, 3), "dilation": (2, 2), "padding": (0, 2), "stride": (1, 3)},
    "with gaps": {"kernel_size": 1, "stride": 3},
    "whole image": {"kernel_size": (6, 70)},
}


@pytest.mark.parametrize("name", WINDOWS)
def test_images(name: str) -> None:
    x = torch.randn(2, 3, 6, 70)
    for image in (x, x[0], x[:, :, :, ::2].repeat(1, 1, 1, 2), x.to(memory_format=torch.channels_last)):
        compare(lambda x: F.unfold(x, **WINDOWS[name]), image)
    columns = F.unfold(x, **WINDOWS[name])
    for dtype in FLOAT:
        c = columns.to(dtype)
        with mpsx.profiler.launch_log() as log:
            F.fold(on_device(c), (6, 70), **WINDOWS[name])
        assert f"kernel:fold_{TAGS[dtype]}" in log
        compare(lambda c: F.fold(c, (6, 70), **WINDOWS[name]), c)
    compare(lambda c: F.fold(c, (6, 70), **WINDOWS[name]), columns[0])


@pytest.mark.parametrize("dtype", [*DTYPES["ALL"], torch.complex64])
def test_types(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, (2, 3, 5, 6)).to(dtype)
    if dtype == torch.bool or dtype.is_floating_point or dtype.is_complex:  # the CPU supports only these dtypes
        torch.testing.assert_close(F.unfold(on_device(x), 2, padding=1).cpu(), F.unfold(x, 2, padding=1))
    torch.testing.assert_close(on_device(x).unfold(2, 3, 2).cpu(), x.unfold(2, 3, 2))


@pytest.mark.parametrize("dtype", FLOAT)
def test_tensor_unfold(dtype: torch.dtype) -> None:
    x = torch.randn(4, 9, 70).to(dtype)
    for dim, size, step in ((0, 2, 1), (1, 3, 2), (2, 64, 3), (-1, 1, 5), (1, 9, 1), (2, 5, 32)):
        compare(lambda x, d=dim, n=size, s=step: x.unfold(d, n, s), x)
    compare(lambda x: x.transpose(0, 2).unfold(0, 5, 2), x)
    compare(lambda x: x.unfold(0, 1, 1), torch.tensor(2.0, dtype=dtype))


def test_out_empty_and_errors() -> None:
    x = torch.randn(2, 3, 6, 7)
    out = torch.empty(2, 27, 20, device="mpsx").transpose(0, 2).contiguous().transpose(0, 2)
    torch.ops.aten.im2col.out(on_device(x), [3, 3], [1, 1], [0, 0], [1, 1], out=out)
    torch.testing.assert_close(out.cpu(), F.unfold(x, 3))
    assert F.unfold(on_device(x[:0]), 3).shape == (0, 27, 20)
    assert F.fold(torch.empty(0, 27, 20, device="mpsx"), (6, 7), 3).shape == (0, 3, 6, 7)
    with pytest.raises(RuntimeError, match="kernel size should be greater than zero"):
        F.unfold(on_device(x), 0)
    with pytest.raises(RuntimeError, match="divisible by the product of kernel_size"):
        F.fold(on_device(torch.randn(1, 10, 20)), (6, 7), 3)
