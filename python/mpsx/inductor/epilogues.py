"""Activations in the epilogues of GEMMs, so that the output of a linear layer is not stored before its activation.

This applies if only operators with kernels of their own use the result, such as the next layer's GEMM. Otherwise, the
activation becomes part of a generated kernel, which has to load the layer's output anyway. The host driver leaves GEMMs
to a CPU library, which has no such epilogue.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._inductor import compile_fx, config, lowering
from torch._inductor.utils import is_view
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from .lanes import runs_loops
from .lowerings import FLOATS

aten = torch.ops.aten
GEMMS = (aten.mm.default, aten.addmm.default)
RESHAPES = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
# Inductor calls these and the operators in lowering.fallbacks, and generates code for others.
CALLED = (*GEMMS, aten.bmm.default, aten.baddbmm.default, aten.convolution.default)


def activation_of(node: Node) -> str | None:
    """Return the name of a node's activation in mpsx::addmm_activation, or None."""
    if node.target is aten.relu.default:
        return "relu"
    if node.target is aten.silu.default:
        return "silu"
    if node.target is aten.gelu.default:
        return "gelu_tanh" if node.kwargs.get("approximate") == "tanh" else "gelu"
    return None


def is_plain_gemm(node: Node) -> bool:
    """Return whether a node is a GEMM on mpsx whose epilogue can apply an activation."""
    if node.target not in GEMMS or {*node.kwargs.values()} - {1}:  # alpha and beta
        return False
    values = [node.meta["val"], *(arg.meta["val"] for arg in node.args)]
    dtypes = {value.dtype for value in values}
    return all(value.device.type == "mpsx" for value in values) and len(dtypes) == 1 and dtypes <= {*FLOATS}


def gemm_of(activation: Node) -> Node | None:
    """Return the GEMM whose output only this activation uses, or None."""
    node = activation.args[0]
    while len(node.users) == 1 and node.target in RESHAPES:
        node = node.args[0]
    return node if len(node.users) == 1 and is_plain_gemm(node) else None


def is_called(user: Node) -> bool:
    """Return whether a user of a tensor is an operator that Inductor calls, or the graph's output."""
    if user.op == "output":
        return True
    if not isinstance(user.target, OpOverload) or user.target._schema.is_mutable:
        return False
    if is_view(user.target):
        return all(map(is_called, user.users))
    return user.target in CALLED or user.target in lowering.fallbacks


def rounds(x: torch.Tensor) -> bool:
    """Return whether the output of a layer must be rounded before its activation, as in eager mode."""
    return config.emulate_precision_casts and x.dtype != torch.float32


def fuse_activations(gm: GraphModule) -> None:
    """Replace GEMMs and the activations that follow them."""
    for activation in list(gm.graph.nodes):
        name = activation_of(activation)
        gemm = gemm_of(activation) if name else None
        if gemm is None or rounds(gemm.meta["val"]) or not all(map(is_called, activation.users)):
            continue
        added = gemm.args[0] if gemm.target is aten.addmm.default else None
        with gm.graph.inserting_before(gemm):
            op = torch.ops.mpsx.addmm_activation.default
            fused = gm.graph.call_function(op, (added, *gemm.args[-2:], name))
        fused.meta.update(gemm.meta)
        gemm.replace_all_uses_with(fused)
        activation.replace_all_uses_with(activation.args[0])
        gm.graph.erase_node(activation)
        gm.graph.erase_node(gemm)


def install() -> None:
    """Fuse activations after Inductor's own passes, which add biases to products."""
    lowering.make_fallback(torch.ops.mpsx.addmm_activation.default, warn=False)
    previous = compile_fx.post_grad_passes

    @functools.wraps(previous)
    def passes(gm: GraphModule, *args: Any, **kwargs: Any) -> None:
        previous(gm, *args, **kwargs)
        if not runs_loops():
            fuse_activations(gm)

    compile_fx.post_grad_passes = passes
