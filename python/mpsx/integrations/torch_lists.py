"""Lists of devices in PyTorch's own Python code: FlexAttention."""

from __future__ import annotations

from .rewrite import line

PATCHES = {
    "torch.nn.attention.flex_attention": (
        line("_validate_device", '"hpu", "mps"}', '"hpu", "mps", "mpsx"}'),
    ),
}  # fmt: skip
