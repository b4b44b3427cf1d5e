"""Compare random convolutions with few output channels with float64: `python random_narrow.py SEED [COUNT]`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import torch
from random_convs import check_in_layout, random_layout
from tensor_tier import main


def compare(choice: random.Random) -> str:
    """Check a random convolution and its gradients. Return a description of the convolution."""
    dims, transposed = choice.choice([1, 2, 2, 2, 3]), choice.random() < 0.5
    kernel = [choice.choice([1, 2, 3, 3, 5, 7]) if dims < 3 else choice.choice([1, 2, 3]) for _ in range(dims)]
    stride = [choice.choice([1, 1, 2, 3]) for _ in range(dims)]
    dilation = [choice.choice([1, 1, 2]) for _ in range(dims)]
    if not transposed and dims > 1:  # the kernels need dense columns
        stride[-2] = dilation[-2] = 1
    padding = [choice.randrange((k + 1) // 2) for k in kernel]
    size = [choice.randint((k - 1) * d + 1, {1: 90, 2: 40, 3: 12}[dims]) for k, d in zip(kernel, dilation, strict=True)]
    few, channels = choice.choice([1, 2, 3, 3, 4]), choice.choice([1, 3, 8, 20, 65])
    if choice.random() < 0.3:  # the input gradient has few channels
        few, channels = channels, few
    case = (transposed, choice.randint(1, 3), channels, few, size, kernel, stride, padding, dilation, 1)
    return check_in_layout(case, torch.float32, random_layout(case, choice), choice)


if __name__ == "__main__":
    main(compare, ["conv_narrow_"], 12)
