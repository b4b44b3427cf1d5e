"""Write a differentiable operator in Metal: y = x * sigmoid(a * x), with a forward and a backward kernel.

`torch.library.custom_op` makes it work with autograd and `torch.compile`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

import mpsx

from .options import parse, show

SOURCE = """
#include <metal_stdlib>
using namespace metal;

kernel void swish_forward(device float* y, constant float* x, constant float& a, uint i [[thread_position_in_grid]]) {
  y[i] = x[i] / (1 + exp(-a * x[i]));
}

kernel void swish_backward(device float* grad_x, constant float* grad_y, constant float* x, constant float& a,
                           uint i [[thread_position_in_grid]]) {
  const float s = 1 / (1 + exp(-a * x[i]));
  grad_x[i] = grad_y[i] * (s + a * x[i] * s * (1 - s));
}
"""
library = mpsx.compile_shader(SOURCE)


@torch.library.custom_op("mpsx_examples::swish", mutates_args=())
def swish(x: torch.Tensor, a: float) -> torch.Tensor:
    """Return x * sigmoid(a * x) for a float32 tensor on mpsx."""
    x = x.contiguous()  # kernels receive only the memory, not the strides
    y = torch.empty_like(x)
    library.swish_forward(y, x, a)
    return y


@torch.library.custom_op("mpsx_examples::swish_backward", mutates_args=())
def swish_backward(grad: torch.Tensor, x: torch.Tensor, a: float) -> torch.Tensor:
    """Return the gradient of swish."""
    grad, x = grad.contiguous(), x.contiguous()
    result = torch.empty_like(x)
    library.swish_backward(result, grad, x, a)
    return result


@swish.register_fake
def _(x: torch.Tensor, a: float) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@swish_backward.register_fake
def _(grad: torch.Tensor, x: torch.Tensor, a: float) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _setup(ctx: object, inputs: tuple[torch.Tensor, float], output: torch.Tensor) -> None:
    x, ctx.a = inputs
    ctx.save_for_backward(x)


swish.register_autograd(lambda ctx, grad: (swish_backward(grad, *ctx.saved_tensors, ctx.a), None),
                        setup_context=_setup)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> tuple[float, float]:
    """Fit a curve with the operator. Return the first and the last loss."""
    options = parse(__doc__, argv)
    rows, steps = (65536, 1000) if options.real else (256, 60)
    steps = options.steps or steps
    x = torch.linspace(-3, 3, rows, device="mpsx")[:, None]
    target = (2 * x).sin()
    first, second = torch.nn.Linear(1, 64, device="mpsx"), torch.nn.Linear(64, 1, device="mpsx")
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], 2e-2)
    losses = []
    for step in range(steps):
        loss = (second(swish(first(x), 1.5)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        show(step, steps, losses[-1])
    return losses[0], losses[-1]


if __name__ == "__main__":
    main()
