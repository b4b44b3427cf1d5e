"""Calls of the explicit operators, shared by the test_explicit_*.py files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from layouts import make, on_device
from tables import rows

DEVICES = ("mpsx", "cpu")


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@dataclass(eq=False)
class Case:
    """An explicit operator, its PyTorch reference, and its arguments. Floating-point tensors become leaves."""

    name: str
    reference: Callable[..., torch.Tensor]
    arguments: tuple
    keywords: dict

    def __str__(self) -> str:
        return self.name


def case(name: str, reference: Callable[..., torch.Tensor], *arguments: object, **keywords: object) -> Case:
    return Case(name, reference, arguments, keywords)


X, MASK = randn(4, 6), randn(4, 6, seed=1) > 0
IMAGE, QUERY, KEY, VALUE = randn(2, 4, 7, 5), randn(2, 4, 5, 8), randn(2, 4, 6, 8, seed=1), randn(2, 4, 6, 8, seed=2)
CLASSES = torch.tensor([1, 0, 5, 3])
NN = [
    case("softmax", F.softmax, X, -1),
    case("softmax", F.softmax, X, 0, dtype=torch.float32),
    case("log_softmax", F.log_softmax, X, 1),
    case("layer_norm", F.layer_norm, X, [6], randn(6, seed=1), randn(6, seed=2), 1e-3),
    case("layer_norm", F.layer_norm, X, [4, 6]),
    case("rms_norm", F.rms_norm, X, [6], randn(6, seed=1), 1e-3),
    case("rms_norm", F.rms_norm, X, [6]),
    case("group_norm", F.group_norm, IMAGE, 2, randn(4, seed=1), randn(4, seed=2), 1e-3),
    case("gelu", F.gelu, X),
    case("gelu", F.gelu, X, approximate="tanh"),
    case("silu", F.silu, X),
    case("swiglu", lambda x, gate: x * F.silu(gate), X, randn(4, 6, seed=1)),
    case("linear", F.linear, randn(2, 4, 6), randn(3, 6, seed=1), randn(3, seed=2)),
    case("linear", F.linear, X, randn(3, 6, seed=1)),
    case("conv2d", F.conv2d, IMAGE, randn(6, 2, 3, 3, seed=1), randn(6, seed=2), [2, 1], [1, 0], [1, 1], 2),
    case("conv2d", F.conv2d, IMAGE[0], randn(3, 4, 3, 3, seed=1)),
    case("cross_entropy", F.cross_entropy, X, CLASSES),
    case("cross_entropy", F.cross_entropy, X, CLASSES, randn(6, seed=3).abs(), reduction="none"),
    case("cross_entropy", F.cross_entropy, X, CLASSES, randn(6, seed=3).abs(), ignore_index=3, label_smoothing=0.1),
    case("cross_entropy", F.cross_entropy, X, randn(4, 6, seed=3).softmax(-1), reduction="sum", label_smoothing=0.2),
    case("cross_entropy", F.cross_entropy, randn(2, 6, 3, 2), torch.randint(0, 6, (2, 3, 2)), reduction="none"),
    case("embedding", F.embedding, torch.tensor([[1, 3], [3, 0]]), X),
    case("embedding", F.embedding, torch.tensor([[1, 3], [3, 0]]), X, padding_idx=-1),
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, QUERY, KEY, VALUE),
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, KEY, KEY, VALUE, is_causal=True, scale=0.5),
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, QUERY, KEY, VALUE, randn(5, 6, seed=5) > -1),
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, QUERY[0], KEY[0], VALUE[0], randn(5, 6)),
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, QUERY, KEY[:, :2], VALUE[:, :2],
         enable_gqa=True),
    # This head dimension exceeds the fused kernel's maximum.
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, *randn(3, 1, 2, 5, 300, seed=6)),
]  # fmt: skip

DOMAIN = {"sqrt": (0.1, 9), "rsqrt": (0.1, 9), "log": (0.1, 9), "log2": (0.1, 9), "log10": (0.1, 9),
          "log1p": (-0.9, 9), "tan": (-1, 1), "acosh": (1.1, 9),
          "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atanh": (-0.9, 0.9)}  # fmt: skip


def operand(types: str, layout: str = "contiguous", seed: int = 0, low: float = -3, high: float = 3) -> torch.Tensor:
    dtype = torch.int32 if types in ("INT", "BITS") else torch.float32
    return make(layout, dtype, seed=seed, low=low, high=high)


UNARY = [
    case(name, getattr(torch, name), operand(types, "slice", 0, *DOMAIN.get(name, (-3, 3))))
    for name, types in rows("elementwise/unary.def", "MPSX_UNARY", 2)
]
BINARY = [
    case(name, getattr(torch, name), operand(types, "transposed"), operand(types, seed=1))
    for name, _, types in rows("elementwise/binary.def", "MPSX_BINARY", 3)
]
COMPARE = [
    case(name, getattr(torch, name), operand("ALL"), operand("ALL", seed=1))
    for name, _ in rows("elementwise/compare.def", "MPSX_COMPARE", 2)
]
POSITIVE = X.abs() + 0.5
OTHER = [
    case("add", torch.add, X, randn(6, seed=1), alpha=2),
    case("mul", torch.mul, X, 2.5),
    case("sub", torch.sub, randn(6), randn(4, 1), alpha=0.5),
    case("pow", torch.pow, POSITIVE, randn(4, 6, seed=1)),
    case("pow", torch.pow, X, 3),
    case("remainder", torch.remainder, X, POSITIVE),
    case("fmod", torch.fmod, X, POSITIVE),
    case("floor_divide", torch.floor_divide, X, POSITIVE),
    case("where", torch.where, MASK, X, randn(6)),
    case("masked_fill", torch.masked_fill, X, MASK, 7.0),
    case("clamp", torch.clamp, X, -0.5, 0.4),
    case("clamp", torch.clamp, X, max=0.4),
    case("addcmul", torch.addcmul, X, randn(6), randn(4, 1, seed=1), value=0.5),
    case("addcdiv", torch.addcdiv, X, randn(4, 6, seed=1), POSITIVE, value=0.5),
    case("lerp", torch.lerp, X, randn(4, 6, seed=1), randn(4, 6, seed=2)),
    case("leaky_relu", F.leaky_relu, X, 0.2),
    case("elu", F.elu, X, 0.7),
    case("hardtanh", F.hardtanh, X, -0.5, 0.8),
    case("hardswish", F.hardswish, X),
    case("hardsigmoid", F.hardsigmoid, X),
    case("softplus", F.softplus, X, 2.0, 5.0),
    case("mish", F.mish, X),
]
ELEMENTWISE = UNARY + BINARY + COMPARE + OTHER
ALL = NN + ELEMENTWISE
LABELS = [f"{c}-{k}" for k, c in enumerate(ALL)]
each = pytest.mark.parametrize("c", ALL, ids=LABELS)


def overload(c: Case) -> torch._ops.OpOverload:
    packet = getattr(torch.ops.mpsx, c.name)
    return packet.Scalar if c.name in ("mul", "pow") and isinstance(c.arguments[1], float | int) else packet.default


def leaves(c: Case, device: str, dtype: torch.dtype = torch.float32, grad: bool = True) -> list[object]:
    """Return the arguments on a device, as new leaves with the same layouts."""
    placed = []
    for k, a in enumerate(c.arguments):
        if isinstance(a, torch.Tensor):
            b = a.to(dtype) if a.is_floating_point() and dtype != torch.float32 else a
            leaf = on_device(b.clone() if device == "cpu" else b, device).detach()
            # As in PyTorch, these arguments have no gradient.
            constant = c.name == "floor_divide" or (c.name == "cross_entropy" and k > 0)
            placed.append(leaf.requires_grad_(grad and leaf.is_floating_point() and not constant))
        else:
            placed.append(a)
    return placed


def tensors(values: list[object]) -> list[torch.Tensor]:
    return [v for v in values if isinstance(v, torch.Tensor)]
