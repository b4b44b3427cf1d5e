"""PyTorch's choices that differ on mpsx: the layout of convolutions, between fused and separate kernels on drivers that
run one thread per threadgroup, and when to split reductions on the others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch._inductor import config, lowering
from torch._inductor.choices import InductorChoices
from torch._inductor.fx_passes import post_grad
from torch._inductor.graph import GraphLowering

from .. import _runtime
from .lanes import runs_loops

CAT_LIMITS = ("max_pointwise_cat_inputs", "max_complex_pointwise_cat_inputs")
GPU_CORES = 40  # of an M4 Max. Metal does not report the number, and simt makes the same choices
GROUPS_PER_CORE = 4  # threadgroups that a split reduction should have
# Elements per output above which a second kernel takes less time than the reduction of the whole output by one
# threadgroup, the number of elements per output that keeps a threadgroup busy, and its number of outputs (columns.py).
ROW_SPLIT, COLUMN_SPLIT = (65536, 8192, 1), (4096, 512, 32)
MIN_PART = 64


def processors() -> int:
    """Return the number of the device's cores (multiprocessors), or of threads if generated kernels are loops."""
    if runs_loops():
        return torch.get_num_threads()
    driver = _runtime.driver()
    return driver["cores"] if driver["name"] == "cuda" else GPU_CORES


def split_factor(size: int, outputs: int, in_rows: bool) -> int:
    """Return the number of parts into which to split a reduction of `size` elements per output. A second kernel reduces
    the results of the parts. If `in_rows`, the elements of an output are adjacent, otherwise the outputs are."""
    least, part, tile = ROW_SPLIT if in_rows else COLUMN_SPLIT
    if size < least or outputs >= processors() * tile:
        return 1
    part = max(MIN_PART, part * min(outputs, tile) // tile)  # a tile may contain the columns of several parts
    split = min(max(1, GROUPS_PER_CORE * processors() * tile // outputs), size // part)
    even = [d for d in sympy.divisors(size) if split <= 2 * d and d <= 2 * split]  # without a mask
    return min(even, key=lambda d: (size // d % 8 > 0, abs(d - split)), default=split)


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


def _split_reductions() -> None:
    """Choose how to split reductions on drivers with SIMD groups."""
    previous = InductorChoices.reduction_split_factor

    def choose(previous: Callable[..., int], device: torch.device, reduction_numel_hint: int, numel_hint: int,
               inner_reduction: bool) -> int:  # fmt: skip
        if device.type != "mpsx" or runs_loops():
            return previous(device, reduction_numel_hint, numel_hint, inner_reduction)
        return split_factor(int(reduction_numel_hint), int(numel_hint), inner_reduction)

    if isinstance(vars(InductorChoices)["reduction_split_factor"], staticmethod):  # before PyTorch 2.14
        InductorChoices.reduction_split_factor = staticmethod(functools.partial(choose, previous))
    else:
        InductorChoices.reduction_split_factor = lambda self, *args, **kwargs: choose(
            functools.partial(previous, self), *args, **kwargs)  # fmt: skip


def _keep_convolution_layouts() -> None:
    """Keep the layouts of the model's convolutions on GPUs. PyTorch would convert them to channels-last format, which
    is faster with the CPU library of the host driver. On an H200, a step of ResNet-50 with 8 images takes as long in
    both, because it waits for the CPU."""
    previous = GraphLowering.decide_layout_opt
    convolution = torch.ops.aten.convolution.default

    @functools.wraps(previous)
    def decide(gm: torch.fx.GraphModule, **kwargs: Any) -> bool:
        inputs = [node.args[0] for node in gm.graph.nodes if node.target is convolution]
        on_mpsx = any(x.meta["val"].device.type == "mpsx" for x in inputs)
        if on_mpsx and not runs_loops() and not config.force_layout_optimization:
            return False
        return previous(gm, **kwargs)

    GraphLowering.decide_layout_opt = staticmethod(decide)


def install() -> None:
    """Wrap PyTorch's functions."""
    _keep_convolution_layouts()
    if hasattr(InductorChoices, "reduction_split_factor"):
        _split_reductions()
    _copy_cat_inputs()
    if hasattr(post_grad, "should_prefer_unfused_addmm"):
        _add_matrices_later()
