"""Activations and their gradients for every half and bfloat16 value."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("no_fallback")

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "leaky_relu": lambda x: F.leaky_relu(x, -0.3),
    "elu": lambda x: torch.ops.aten.elu(x, 1.3, 0.7, 0.6),
    "elu_in_place": lambda x: F.elu_(x * 1, 1.7),  # the gradient is computed from the output
    "celu": lambda x: F.celu(x, 1.7),
    "celu_in_place": lambda x: F.celu_(x * 1, 1.7),
    "selu": F.selu,
    "hardtanh": lambda x: F.hardtanh(x, -0.3, 1.7),
    "relu": F.relu,
    "relu6": F.relu6,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "softplus": lambda x: F.softplus(x, 1.7, 3.0),
    "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "threshold": lambda x: F.threshold(x, 0.3, -2.0),
    "hardshrink": F.hardshrink,
    "softshrink": lambda x: F.softshrink(x, 0.1),
    "tanhshrink": F.tanhshrink,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "logit": torch.logit,
    "logit_eps": lambda x: torch.logit(x, 0.1),
    "nan_to_num": lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0),
    "prelu": lambda x: F.prelu(x, x.new_tensor([0.3])),
    "glu": lambda x: F.glu(torch.stack([torch.full_like(x, 1.5), x]), 0)[0],
}


def results(name: str, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the activation and its gradient, computed on a leaf with the data and strides of x."""
    leaf = x.detach().requires_grad_()
    y = ACTIVATIONS[name](leaf)
    return y.detach().cpu(), torch.autograd.grad(y, leaf, weight.view_as(y))[0].cpu()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_half(name: str, dtype: torch.dtype) -> None:
    """Compare with float64, and with the CPU's loop for contiguous tensors.

    For NaN inputs, the CPU's vectorized and scalar loops compute different gradients. The scalar loop also handles the
    last elements. For elu, celu, selu and hardswish, the gradient is NaN in the vectorized loop, but that of the
    identity in the scalar loop. For hardtanh, relu6, hardshrink, softshrink and logit with eps, it is 0 in only one of
    the loops. mpsx matches the vectorized loop for every layout.
    """
    x = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
    rtol = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2}[dtype]
    strided = torch.stack([x, x], 1).to("mpsx")[:, 0]
    for weight in (torch.ones_like(x), torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(dtype)):
        cpu = results(name, x, weight)
        exact = [t.to(dtype) for t in results(name, x.double(), weight.double())]
        for ours in (results(name, x.to("mpsx"), weight.to("mpsx")), results(name, strided, weight.to("mpsx"))):
            for have, *wanted in zip(ours, cpu, exact, strict=True):
                good = torch.zeros(x.shape, dtype=torch.bool)
                for want in wanted:
                    good |= torch.isclose(have, want, rtol, 1e-5, equal_nan=True)
                bad = (~good).nonzero().flatten()[:4]
                assert good.all(), [(t[bad].tolist()) for t in (x, have, *wanted)]
