"""Lists of devices in PyTorch's own Python code: FlexAttention, torch.distributed."""

from __future__ import annotations

from mpsx import distributed

from .rewrite import line

PATCHES = {
    "torch.distributed.distributed_c10d": (distributed.register,),
    "torch.nn.attention.flex_attention": (
        line("_validate_device", '"hpu", "mps"}', '"hpu", "mps", "mpsx"}'),
        # Of PyTorch's own mps alone.
        line("_validate_device", 'if query.device.type == "mps" and (',
             'if query.device.type == "mps" and not torch.mpsx.is_mps() and ('),
    ),
}  # fmt: skip
