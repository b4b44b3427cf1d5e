"""PyTorch's choices between fused and separate kernels that differ on drivers that run one thread per threadgroup."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._inductor import config, lowering
from torch._inductor.fx_passes import post_grad

from .lanes import runs_loops

CAT_LIMITS = ("max_pointwise_cat_inputs", "max_complex_pointwise_cat_inputs")


def is_in_loops(device: torch.device) -> bool:
    """Return whether generated kernels for a device are loops over elements."""
    return device.type == "mpsx" and runs_loops()


def _copy_cat_inputs() -> None:
    """Compute each input of a concatenation in its own loop, which writes to the result. A single loop over the result
    would have a branch per input."""
    op = torch.ops.aten.cat.default
    previous = lowering.lowerings[op]

    @functools.wraps(previous)
    def lower(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_in_loops(inputs[0].get_device()):
            return previous(inputs, *args, **kwargs)
        with config.patch({name: 0 for name in CAT_LIMITS if hasattr(config, name)}):
            return previous(inputs, *args, **kwargs)

    lowering.lowerings[op] = lower


def _add_matrices_later() -> None:
    """Keep additions of matrices to products out of GEMMs. A GEMM would copy the matrix first, and the loop that uses
    the sum can add it instead."""
    previous = post_grad.should_prefer_unfused_addmm

    @functools.wraps(previous)
    def prefers_unfused(match: Any) -> bool:
        added, result = match.kwargs["inp"].meta["val"], match.output_node().meta["val"]
        return (is_in_loops(added.device) and added.shape == result.shape) or previous(match)

    post_grad.should_prefer_unfused_addmm = prefers_unfused


def install() -> None:
    """Wrap PyTorch's functions."""
    _copy_cat_inputs()
    if hasattr(post_grad, "should_prefer_unfused_addmm"):
        _add_matrices_later()
