"""Count the packed copies that convolutions make: `python packed_copies.py`."""

from __future__ import annotations

import torch

import mpsx

x = torch.randn(2, 32, 8, 8, device="mpsx", requires_grad=True)
w = torch.randn(64, 32, 3, 3, device="mpsx", requires_grad=True)
y = torch.nn.functional.conv2d(x, w, padding=1)
with mpsx.profiler.launch_log() as log:
    torch.autograd.grad(y, (x, w), torch.ones_like(y))
copies = [name for name in log if name.startswith("kernel:conv_pack_") and "weight" not in name]
assert len(copies) == 2, log  # of the input, and of the output gradient for both results

x, w = (t.detach().contiguous(memory_format=torch.channels_last).requires_grad_() for t in (x, w))
with mpsx.profiler.launch_log() as log:
    y = torch.nn.functional.conv2d(x, w, padding=1)
    torch.autograd.grad(y, (x, w), torch.ones_like(y))
assert not [name for name in log if name.startswith("kernel:conv_pack_") and "weight" not in name], log
