"""Print tensors without launching kernels. PyTorch formats numbers with float64 operators, which Metal lacks.

PyTorch has a fixed list of devices whose tensors it moves to the CPU before formatting. mpsx is not on the list, so
wrap the formatting function and pass it a CPU view, which copies nothing.
"""

from __future__ import annotations

import functools

import torch
from torch import _tensor_str

from .views import cpu_view


def register() -> None:
    """Wrap PyTorch's formatting function, if this version has one."""
    format_values = getattr(_tensor_str, "_tensor_str", None)
    if format_values is None:
        return

    @functools.wraps(format_values)
    def on_cpu(tensor: torch.Tensor, indent: int) -> str:
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and torch._C._len_torch_dispatch_stack() == 0
        if plain and tensor.is_mpsx and not torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = cpu_view(tensor)
        return format_values(tensor, indent)

    _tensor_str._tensor_str = on_cpu
