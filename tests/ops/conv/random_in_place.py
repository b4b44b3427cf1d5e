"""Run random convolutions without copies of their tensors, and compare the results with float64.

    python random_in_place.py SEED [COUNT]

Channels are whole vectors of 16 bytes, and most tensors are in channels-last format.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from random_convs import check_in_layout, prefer_random_tiles, random_layout
from tables import FLOAT
from tensor_tier import main

from mpsx import _runtime


def compare(choice: random.Random) -> str:
    """Check a random convolution and its gradients. Return a description of the convolution."""
    dims, transposed = choice.choice([2, 2, 2, 3]), choice.random() < 0.3
    _runtime.set_tuning({})
    if choice.random() < 0.5:
        prefer_random_tiles(choice)
    kernel = [choice.choice([1, 2, 3]) for _ in range(dims)]
    stride = [choice.choice([1, 1, 2, 3]) for _ in range(dims)]
    dilation = [choice.choice([1, 1, 2]) for _ in range(dims)]
    padding = [choice.randrange(k + 1) for k in kernel]
    limit = {2: 12, 3: 5}[dims]
    size = [max(choice.randint(3, limit), (k - 1) * d + 1) for k, d in zip(kernel, dilation, strict=True)]
    if transposed:
        padding = [min(p, (k - 1) * d // 2) for p, k, d in zip(padding, kernel, dilation, strict=True)]
    groups = choice.choice([1, 1, 1, 2])  # the kernels combine groups of up to 64 channels, from copies
    channels, out_channels = (144, 160) if groups == 2 else (choice.choice([8, 16, 24, 64, 72]),
                                                             choice.choice([8, 16, 24, 72]))  # fmt: skip
    case = (transposed, choice.randint(1, 3), channels, out_channels, size, kernel, stride, padding, dilation, groups)
    layout = "channels_last" if choice.random() < 0.7 else random_layout(case, choice)
    return check_in_layout(case, choice.choice(FLOAT), layout, choice)


if __name__ == "__main__":
    main(compare, ["conv_pixels_", "conv_weight_grad_pixels_"], 8)
