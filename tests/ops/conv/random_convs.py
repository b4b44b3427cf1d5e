"""Compare random convolutions with float64: `python random_convs.py SEED [COUNT]`.

Those without groups, or with more than four channels per group, use the tensor tier.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import torch
from tables import FLOAT
from tensor_tier import main
from test_conv import LAST, check


def check_infinity(case: tuple, dtype: torch.dtype) -> None:
    """An infinite input makes the same outputs infinite as on the CPU, and none of them NaN."""
    transposed, images, channels, out_channels, size, kernel, stride, padding, dilation, groups = case
    x = torch.ones(images, channels, *size, dtype=dtype)
    x.view(-1)[x.numel() // 2] = torch.inf
    shape = (channels, out_channels) if transposed else (out_channels, channels)
    w = torch.rand(*shape, *kernel).to(dtype) + 0.5
    arguments = (None, stride, padding, dilation, transposed, [0] * len(size), groups)
    expected = torch.convolution(x, w, *arguments).isinf()
    y = torch.convolution(x.to("mpsx"), w.to("mpsx"), *arguments).cpu()
    assert torch.equal(y.isinf(), expected)
    assert not y.isnan().any()


def compare(choice: random.Random) -> str:
    """Check a random convolution and its gradients. Return a description of the convolution."""
    dims = choice.choice([1, 2, 2, 2, 3])
    limit, transposed = {1: 40, 2: 10, 3: 5}[dims], choice.random() < 0.3
    kernel = [choice.choice([1, 2, 3, 3, 5]) for _ in range(dims)] if choice.random() < 0.8 else [1] * dims
    stride = [choice.choice([1, 1, 2, 3]) for _ in range(dims)] if choice.random() < 0.5 else [1] * dims
    dilation = [choice.choice([1, 2]) for _ in range(dims)] if choice.random() < 0.3 else [1] * dims
    padding = [choice.randrange(k + 1) for k in kernel]
    size = [choice.randint((k - 1) * d + 1, limit + 6) for k, d in zip(kernel, dilation, strict=True)]
    if choice.random() < 0.3:
        size[-1] = choice.choice([8, 16])  # rows consist of whole vectors
    size = [max(n, (k - 1) * d + 1) for n, k, d in zip(size, kernel, dilation, strict=True)]
    if transposed:
        padding = [min(p, (k - 1) * d // 2) for p, k, d in zip(padding, kernel, dilation, strict=True)]
    groups = choice.choice([1, 1, 1, 1, 2, 3, 4, 6])
    if groups > 1 and choice.random() < 0.6:  # GEMMs of one or several groups
        channels, out_channels = groups * choice.choice([2, 8, 12, 40]), groups * choice.choice([5, 8, 16])
    elif groups > 1:  # direct kernels
        channels, out_channels = groups * choice.choice([1, 1, 2, 4]), groups * choice.choice([1, 1, 2, 3])
    else:
        channels, out_channels = choice.choice([1, 3, 8, 16, 20, 64]), choice.choice([1, 5, 16, 24, 70])
    case = (transposed, choice.randint(1, 3), channels, out_channels, size, kernel, stride, padding, dilation, groups)
    dtype = choice.choice(FLOAT)
    layouts = ["contiguous", "slice"]
    if dims in LAST and min(channels, out_channels) > 1:  # with one channel, both formats have the same strides
        layouts.append("channels_last")
    layout = choice.choice(layouts)
    bias = choice.random() < 0.5
    text = f"{case} {dtype} {layout} bias={bias}"
    try:
        check(case, dtype, layout, bias)
        if groups == 1:  # zeros of a matrix with several groups would turn infinities into NaN
            check_infinity(case, dtype)
    except Exception as error:
        raise AssertionError(text) from error
    return text


if __name__ == "__main__":
    main(compare, "conv_gemm_tensor_", 12)
