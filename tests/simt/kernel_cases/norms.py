"""softmax and norms, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from tables import FLOAT, TAGS

from kernel_cases import Case, case, values

aten = torch.ops.aten
HALVES = FLOAT[1:]


def softmax_backward(op: Callable, g: torch.Tensor, y: torch.Tensor, dim: int, dtype: torch.dtype) -> torch.Tensor:
    """Call a softmax backward function. The input's dtype is `dtype`, or float64 for the reference."""
    return op(g, y, dim, g.dtype if g.dtype == torch.float64 else dtype)


def softmax_to_float(op: Callable, x: torch.Tensor, dim: int) -> torch.Tensor:
    """Compute float results from half inputs in a single kernel, which the CPU does not support."""
    return op(x, dim, x.dtype in HALVES)


def softmax_cases() -> Iterator[Case]:
    for name, function, forward, backward in (
        ("softmax", torch.softmax, aten._softmax, aten._softmax_backward_data),
        ("log_softmax", torch.log_softmax, aten._log_softmax, aten._log_softmax_backward_data),
    ):
        for dtype in FLOAT:
            for where, dim in (("rows", 1), ("columns", 0)):
                x, g = values(11, 261, dtype=dtype), values(11, 261, dtype=dtype, seed=1)
                y = function(x.double(), dim)
                label = f"{name} of {where} {TAGS[dtype]}"
                yield case(label, function, x, dim)
                # The backward pass uses the rounded result.
                yield case(f"{label} backward", softmax_backward, backward, g, y.to(dtype), dim, dtype)
                if dtype in HALVES:
                    yield case(f"{label} to f32", softmax_to_float, forward, x, dim)
                    yield case(f"{label} to f32 backward", softmax_backward, backward, g.float(), y.float(), dim, dtype)


def types() -> Iterator[tuple[torch.dtype, torch.dtype, str]]:
    """Generate the input's dtype, the parameters' dtype, and a label."""
    for dtype in FLOAT:
        yield dtype, dtype, TAGS[dtype]
        if dtype in HALVES:
            yield dtype, torch.float32, f"{TAGS[dtype]} with f32"


def row_norm_cases() -> Iterator[Case]:
    for dtype, parameter, tag in types():
        # For few rows, separate kernels compute the gradients. For many rows, one fused kernel does.
        for where, shape in (("rows", (70, 300)), ("many rows", (2048, 16))):
            x, g = values(*shape, dtype=dtype), values(*shape, dtype=dtype, seed=1, low=-0.1, high=0.1)
            w, b = values(shape[1], dtype=parameter, low=0.5, high=1.5), values(shape[1], dtype=parameter, seed=2)
            size = [shape[1]]
            if where == "rows":
                yield case(f"layer_norm {tag}", aten.native_layer_norm, x, size, w, b, 1e-5)
            # The backward pass uses the saved statistics, which may be half precision.
            _, mean, rstd = aten.native_layer_norm(x.double(), size, w.double(), b.double(), 1e-5)
            yield case(f"layer_norm backward of {where} {tag}",
                       aten.native_layer_norm_backward, g, x, size, mean.to(parameter), rstd.to(parameter), w, b,
                       [True] * 3)  # fmt: skip
            yield case(f"rms_norm of {where} {tag}", rms_norm, x, w, g)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Call the fused operator on the device. On the CPU, call the public composite function."""
    shape = list(x.shape[1:])
    if x.device.type == "cpu":
        leaves = [t.detach().requires_grad_() for t in (x, weight)]
        result = F.rms_norm(leaves[0], shape, leaves[1], 1e-5)
        return result, *torch.autograd.grad(result, leaves, gradient)
    y, rstd = aten._fused_rms_norm(x, shape, weight, 1e-5)
    return y, *aten._fused_rms_norm_backward(gradient, x, shape, rstd, weight, [True, True])


def plane_norm_cases() -> Iterator[Case]:
    shape = (3, 10, 12, 11)  # channels-last, with full and partial column tiles and a shorter last row
    sizes = (*shape[:2], shape[2] * shape[3], 2)  # arguments of group_norm with two groups
    for dtype, parameter, tag in types():
        for where, memory_format in (("planes", torch.contiguous_format), ("channels last", torch.channels_last)):
            x = values(*shape, dtype=dtype).to(memory_format=memory_format)
            g = values(*shape, dtype=dtype, seed=1, low=-0.1, high=0.1).to(memory_format=memory_format)
            w, b = values(10, dtype=parameter, low=0.5, high=1.5), values(10, dtype=parameter, seed=2)
            wide = [t.double() for t in (x, w, b)]
            yield case(f"batch_norm of {where} {tag}",
                       aten.native_batch_norm, x, w, b, None, None, True, 0.1, 1e-5)  # fmt: skip
            _, *kept = aten.native_batch_norm(*wide, None, None, True, 0.1, 1e-5)
            yield case(f"batch_norm backward of {where} {tag}", aten.native_batch_norm_backward, g, x, w, None, None,
                       *(t.to(parameter) for t in kept), True, 1e-5, [True] * 3)  # fmt: skip
            yield case(f"group_norm of {where} {tag}", aten.native_group_norm, x, w, b, *sizes, 1e-5)
            _, *kept = aten.native_group_norm(*wide, *sizes, 1e-5)
            yield case(f"group_norm backward of {where} {tag}",
                       aten.native_group_norm_backward, g, x, *(t.to(parameter) for t in kept), w, *sizes,
                       [True] * 3)  # fmt: skip


def cases() -> Iterator[Case]:
    yield from softmax_cases()
    yield from row_norm_cases()
    yield from plane_norm_cases()
