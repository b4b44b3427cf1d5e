"""Convolutions that use the CPU library, including workarounds for its known bugs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

CASES = [  # (size, kernel, stride, padding, dilation, groups)
    ([8, 8], [3, 3], [3, 2], [2, 1], [4, 4], 2),
    ([5, 5], [2, 3], [2, 2], [1, 1], [2, 3], 1),
    ([5, 5], [2, 2], [1, 2], [1, 0], [1, 3], 1),
    ([8, 5], [1, 3], [1, 3], [0, 1], [1, 3], 2),
    ([12, 8, 7], [3, 3, 3], [2, 1, 3], [0, 0, 1], [2, 1, 4], 2),
    ([9], [3], [2], [1], [2], 1),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("size", "kernel", "stride", "padding", "dilation", "groups"), CASES)
def test_strided_and_dilated(dtype: torch.dtype, size: list[int], kernel: list[int], stride: list[int],
                             padding: list[int], dilation: list[int], groups: int) -> None:  # fmt: skip
    """oneDNN 3.12 returns wrong results for some of these cases in half precision on CPUs with AVX512-FP16 and AMX."""
    convolution = getattr(F, f"conv{len(size)}d")
    x = (torch.randn(2, 4, *size) * 9).to(dtype)
    weight, bias = torch.randn(2, 4 // groups, *kernel).to(dtype), torch.randn(2).to(dtype)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    exact = convolution(x.double(), weight.double(), bias.double(), **options)
    with mpsx.profiler.launch_log() as log:
        got = convolution(x.to("mpsx"), weight.to("mpsx"), bias.to("mpsx"), **options)
    assert got.dtype == dtype
    assert not any(name.startswith("fallback:") for name in log)
    torch.testing.assert_close(got.cpu(), exact.to(dtype), rtol=4 * torch.finfo(dtype).eps, atol=1e-4)
