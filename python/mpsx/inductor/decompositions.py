"""Decompositions of operators that PyTorch always decomposes while tracing, although mpsx has eager kernels for them.

The order of operations and the rounding match the eager kernels, so the results are identical.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp.decompositions import apply_loss_reduction, pw_cast_for_opmath
from torch._inductor.decomposition import decompositions
from torch._inductor.fx_passes import joint_graph
from torch._inductor.pattern_matcher import Match
from torch._ops import OpOverload
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


def rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Round an intermediate result to a dtype, as eager mode does by storing it."""
    return x.to(dtype).to(x.dtype)


def keep_roundings() -> None:
    """Make Inductor keep conversions to a narrower type and back on mpsx, as PyTorch 2.13 does. Older versions remove
    them, even if emulate_precision_casts is set."""
    remove = joint_graph.pointless_convert

    def handler(match: Match, arg: torch.fx.Node, dtype1: torch.dtype, dtype2: torch.dtype) -> None:
        result = match.output_node().meta.get("val")
        on_mpsx = isinstance(result, torch.Tensor) and result.device.type == "mpsx"
        if dtype1.itemsize >= dtype2.itemsize or not on_mpsx:
            remove(match, arg, dtype1, dtype2)

    for entries in joint_graph.patterns.patterns.values():
        for entry in entries:
            if getattr(entry, "handler", None) is remove:
                entry.handler = handler


@pw_cast_for_opmath
def _cross(a: torch.Tensor, b: torch.Tensor, dim: int, dtype: torch.dtype) -> torch.Tensor:
    a, b = torch.broadcast_tensors(a, b)
    first, second = (a.roll(-i, dim) * b.roll(i - 3, dim) for i in (1, 2))
    return rounded(first, dtype) - rounded(second, dtype)


def cross(a: torch.Tensor, b: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """Return the cross products of vectors along a dimension."""
    return _cross(a, b, dim, torch.promote_types(a.dtype, b.dtype))


@pw_cast_for_opmath
def _soft_margin_loss(x: torch.Tensor, target: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return rounded(rounded(-x * target, dtype).exp(), dtype).log1p()


def soft_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """Return the losses, their mean, or their sum."""
    return apply_loss_reduction(_soft_margin_loss(x, target, torch.promote_types(x.dtype, target.dtype)), reduction)


def batch_norm(op: OpOverload) -> Callable[..., Any]:
    """Return a decomposition whose saved statistics have the type of the parameters and are empty in inference, as in
    eager mode. PyTorch's decomposition returns those of CUDA for all devices but CPUs."""
    previous, names = decompositions[op], [argument.name for argument in op._schema.arguments]
    trains = "with_update" in op.name()  # if the operator has no argument for this

    def decompose(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        out, *saved = previous(*args, **kwargs)
        parameters = [given.get(name) for name in ("weight", "bias", "running_mean", "running_var", "input")]
        dtype = next(x.dtype for x in parameters if x is not None)
        saved[:2] = [x.to(dtype) if given.get("training", trains) else x.new_empty(0, dtype=dtype) for x in saved[:2]]
        return out, *saved

    return decompose


BATCH_NORMS = (aten.native_batch_norm.default, aten._native_batch_norm_legit.default,
               aten._native_batch_norm_legit_functional.default,
               aten._native_batch_norm_legit.no_stats, aten._native_batch_norm_legit_no_training.default,
               aten._batch_norm_with_update.default, aten._batch_norm_with_update_functional.default,
               aten._batch_norm_no_update.default)  # fmt: skip
DECOMPOSITIONS = {
    **{op: batch_norm(op) for op in BATCH_NORMS},
    aten.linalg_cross.default: cross,
    aten.soft_margin_loss.default: soft_margin_loss,
    aten.silu_backward.default: silu_backward,
    aten.mish_backward.default: mish_backward,
    aten.glu_backward.default: glu_backward,
}
