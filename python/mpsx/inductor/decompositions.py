"""Decompositions of operators that PyTorch always decomposes while tracing, although mpsx has eager kernels for them.

The order of operations matches activation.def and glu_gate_backward in ternary.h, so the results are identical.
"""

from __future__ import annotations

import torch
from torch._decomp.decompositions import pw_cast_for_opmath
from torch.nn import functional as F

aten = torch.ops.aten


@pw_cast_for_opmath
def silu_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the gradient of silu."""
    y = x.sigmoid()
    return grad * (y * (1 + x * (1 - y)))


@pw_cast_for_opmath
def mish_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the gradient of mish."""
    t, y = F.softplus(x).tanh(), x.sigmoid()
    return grad * (t + x * y * (1 - t * t))


@pw_cast_for_opmath
def glu_backward(grad: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the gradients of both halves of the input, concatenated."""
    first, second = x.chunk(2, dim)
    gate = second.sigmoid()
    return torch.cat([grad * gate, (1 - gate) * gate * first * grad], dim)


DECOMPOSITIONS = {
    aten.silu_backward.default: silu_backward,
    aten.mish_backward.default: mish_backward,
    aten.glu_backward.default: glu_backward,
}
