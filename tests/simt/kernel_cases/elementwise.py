"""Elementwise operators: every kernel in the tables of metal/elementwise, for every dtype and layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from tables import DTYPES, FLOAT, TAGS, rows

from kernel_cases import Case, case, gapped, values

aten = torch.ops.aten
# Ranges in which the functions are defined and well conditioned.
DOMAIN = {"sqrt": (0.1, 9), "rsqrt": (0.1, 9), "log": (0.1, 9), "log2": (0.1, 9), "log10": (0.1, 9),
          "log1p": (-0.9, 9), "tan": (-1, 1), "acosh": (1.1, 9), "reciprocal": (0.5, 4),
          "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atanh": (-0.9, 0.9)}  # fmt: skip
ROWS, COLUMNS = 9, 35


def matrix(dtype: torch.dtype, low: float = -3, high: float = 3, seed: int = 0) -> torch.Tensor:
    """Return a matrix with odd sizes and with more elements than the smallest threadgroup has threads."""
    return values(ROWS, COLUMNS, dtype=dtype, low=low, high=high, seed=seed)


def part(t: torch.Tensor) -> torch.Tensor:
    """Return a copy with gaps between the rows."""
    wide = torch.zeros(t.shape[0], t.shape[1] + 5, dtype=t.dtype)
    wide[:, 2:-3] = t
    return wide[:, 2:-3]


def number(value: float, like: torch.Tensor) -> torch.Tensor:
    """Return a 0-dim CPU tensor, which launchers pass by value."""
    return torch.tensor(value).to(like.dtype)


def unary_cases() -> Iterator[Case]:
    for name, types in rows("elementwise/unary.def", "MPSX_UNARY", 2):
        for dtype in DTYPES[types]:
            x = matrix(dtype, *DOMAIN.get(name, (-3, 3)))
            yield case(f"{name} {TAGS[dtype]}", getattr(torch, name), x)
            yield case(f"{name} of gapped {TAGS[dtype]}", getattr(torch, name), gapped(x))
            if name in ("neg", "relu"):
                yield case(f"{name} of a column {TAGS[dtype]}", getattr(torch, name), x[:, :1].expand(ROWS, COLUMNS))


def binary_cases() -> Iterator[Case]:
    table = [(name, types) for name, _, types in rows("elementwise/binary.def", "MPSX_BINARY", 3)]
    table += [tuple(row) for row in rows("elementwise/special.def", "MPSX_RARE_BINARY", 2)]
    table += [(name, "ALL") for name, _ in rows("elementwise/compare.def", "MPSX_COMPARE", 2)]
    for name, types in table:
        yield from two_operands(name, getattr(torch, name), DTYPES[types])
    yield from two_operands("swiglu", swiglu, FLOAT)
    for name, function in {
        "floor_divide": torch.floor_divide,
        "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        "fmod": torch.fmod,
        "remainder": torch.remainder,
        "pow": torch.pow,
    }.items():
        yield from two_operands(name, function, DTYPES["REAL"], low=1)
    for exponent in (2, 3, -2):
        for dtype in DTYPES["REAL"] if exponent > 0 else FLOAT:
            x, power = matrix(dtype, 1), lambda x, e=exponent: torch.pow(x, e)
            yield case(f"pow {exponent} of {TAGS[dtype]}", power, x)
            yield case(f"pow {exponent} of gapped {TAGS[dtype]}", power, gapped(x))


def swiglu(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Call the operator on the device. On the CPU, compute its formula."""
    return x * F.silu(gate) if x.device.type == "cpu" else torch.ops.mpsx.swiglu(x, gate)


def swiglu_backward(g: torch.Tensor, x: torch.Tensor, gate: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Call the gradient operator on the device. On the CPU, compute the gradients with autograd."""
    if x.device.type != "cpu":
        return torch.ops.mpsx.swiglu_backward(g, x, gate)
    leaves = [t.detach().requires_grad_() for t in (x, gate)]
    return torch.autograd.grad(swiglu(*leaves), leaves, g)


def swiglu_packed_backward(g: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    """Return the gradient with respect to a tensor in which x and gate are concatenated."""
    if packed.device.type != "cpu":
        return torch.ops.mpsx.swiglu_packed_backward(g, packed)
    return torch.cat(swiglu_backward(g, *packed.chunk(2, -1)), -1)


def two_operands(
    name: str, function: Callable[..., torch.Tensor], dtypes: tuple[torch.dtype, ...], low: float = -3
) -> Iterator[Case]:
    """Generate binary calls with dense operands, a scalar on either side, a broadcast operand, and gapped operands."""
    for dtype in dtypes:
        a, b = matrix(dtype, low), matrix(dtype, low, seed=1)
        if name in ("div", "atan2", "swiglu"):
            b = b.abs() + 1
        label = f"{name} {TAGS[dtype]}"
        # In a wider type, a quotient may round to a different integer.
        reference = "same" if low == 1 or dtype not in FLOAT else "exact"
        one = b[:, :1].clone()
        yield case(label, function, a, b, reference=reference)
        if name != "swiglu":  # swiglu does not support broadcasting
            yield case(f"{label}, number", lambda x, f=function: f(x, number(2, x)), a, reference=reference)
            yield case(f"number, {label}", lambda x, f=function: f(number(2, x), x), b, reference=reference)
        yield case(f"{label} of parts", function, part(a), part(b), reference=reference)
        yield case(f"{label}, repeated", function, a, one.expand(a.shape), reference=reference)
        yield case(f"repeated, {label}", function, one.expand(a.shape), b, reference=reference)
        yield case(f"{label}, gapped", function, gapped(a), b, reference=reference)


def renorm_cases() -> Iterator[Case]:
    x = matrix(torch.float32)
    for name, vectors, dim in (("rows", x, 0), ("columns", x, 1), ("one row", x[:1], 1), ("gaps", gapped(x), 0)):
        yield case(f"renorm of {name}", torch.renorm, vectors, 2, dim, 2.5)


def mixed_types() -> Iterator[Case]:
    for dtype in (torch.float16, torch.bfloat16):
        for name, function in (("add", lambda a, b: torch.add(a, b, alpha=2)), ("mul", torch.mul)):
            a, b = matrix(torch.float32), matrix(dtype, seed=1)
            yield case(f"{name} f32 and {TAGS[dtype]}", function, a, b)


def three_operands() -> Iterator[Case]:
    for dtype in FLOAT:
        for dim, part in ((0, "dense"), (1, "gapped")):
            x, g = values(6, 70, dtype=dtype), values(*((3, 70), (6, 35))[dim], dtype=dtype, seed=1)
            yield case(f"glu gradient, {part} {TAGS[dtype]}", aten.glu_backward, g, x, dim)
        x, g = gapped(values(6, 70, dtype=dtype)), values(3, 70, dtype=dtype, seed=1)
        yield case(f"glu, strided {TAGS[dtype]}", F.glu, x, 0)
        yield case(f"glu gradient, strided {TAGS[dtype]}", aten.glu_backward, gapped(g), x, 0)
        a, b = matrix(dtype), matrix(dtype, seed=1)
        yield case(f"lerp, number {TAGS[dtype]}", lambda a, b: torch.lerp(a, b, 0.25), a, b)
        yield case(f"lerp, number, gapped {TAGS[dtype]}", lambda a, b: torch.lerp(a, b, 0.75), gapped(a), b)
    operators = {
        "where": (lambda a, b, c: torch.where(a > 0, b, c), DTYPES["ALL"]),
        "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=2), DTYPES["REAL"]),
        "addcdiv": (lambda a, b, c: torch.addcdiv(a, b, c.abs() + 1, value=2), FLOAT),
        "lerp": (torch.lerp, FLOAT),
        "clamp": (torch.clamp, DTYPES["REAL"]),
        "clamp between numbers": (lambda a, b, c: torch.clamp(a, -1, 2) + b * c, DTYPES["REAL"]),
    }
    for name, (function, dtypes) in operators.items():
        for dtype in dtypes:
            inputs = [matrix(dtype, seed=s) for s in range(3)]
            reference = "exact" if name == "lerp" else "same"
            yield case(f"{name} {TAGS[dtype]}", function, *inputs, reference=reference)
            yield case(f"{name} of gapped {TAGS[dtype]}", function, *map(gapped, inputs), reference=reference)
            a, b, c = inputs
            yield case(f"{name}, column second {TAGS[dtype]}", function, a, b[:, :1], c, reference=reference)
            yield case(f"{name}, column third {TAGS[dtype]}", function, a, b, c[:, :1], reference=reference)


ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": lambda x: F.elu(x, 0.7),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.8),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "softplus": lambda x: F.softplus(x, 2.0, 5.0),
    "mish": F.mish,
    "log_sigmoid": F.logsigmoid,
    "threshold": lambda x: F.threshold(x, 0.1, -7.0),
    "hardshrink": F.hardshrink,
    # PyTorch 2.14 rounds lambda to 16 bits.
    "softshrink": lambda x: F.softshrink(x, 0.3 if torch.__version__ < "2.14" else 0.25),
    "nan_to_num": lambda x: torch.nan_to_num(x, 0.5, 1.5, 2.5),
    "round to tenths": lambda x: torch.round(x, decimals=1),
    "round to tens": lambda x: torch.round(x, decimals=-1),
}
BACKWARD = {
    "gelu": aten.gelu_backward,
    "gelu_tanh": lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
    "silu": aten.silu_backward,
    "sigmoid": aten.sigmoid_backward,
    "tanh": aten.tanh_backward,
    "threshold": lambda g, x: aten.threshold_backward(g, x, 0.1),
    "leaky_relu": lambda g, x: aten.leaky_relu_backward(g, x, 0.2, False),
    "elu": lambda g, x: aten.elu_backward(g, 0.7, 1.0, 1.5, False, x),
    "elu of its result": lambda g, x: aten.elu_backward(g, 0.7, 1.0, 1.5, True, x),
    "hardtanh": lambda g, x: aten.hardtanh_backward(g, x, -0.5, 0.8),
    "hardswish": aten.hardswish_backward,
    "hardsigmoid": aten.hardsigmoid_backward,
    "softplus": lambda g, x: aten.softplus_backward(g, x, 2.0, 5.0),
    "mish": aten.mish_backward,
    "log_sigmoid": lambda g, x: aten.log_sigmoid_backward(g, x, torch.exp(-x.abs())),
    "hardshrink": lambda g, x: aten.hardshrink_backward(g, x, 0.5),
    "logit": lambda g, x: aten.logit_backward(g, x, None),
    "logit within bounds": lambda g, x: aten.logit_backward(g, x, 0.1),
    "prelu": lambda g, x: aten._prelu_kernel(x, g),
    "glu": lambda g, x: F.glu(torch.cat([g.flatten(), x.flatten()])),
    "glu of columns": lambda g, x: F.glu(torch.cat([g, x], 1), 1),
}


def activation_cases() -> Iterator[Case]:
    for dtype in FLOAT:
        x, g = matrix(dtype), matrix(dtype, seed=1)
        unit = values(ROWS, COLUMNS, dtype=dtype, low=0.1, high=0.9)
        for eps in (None, 0.3):  # compare with float64, because the CPU rounds intermediate results to half
            yield case(f"logit {eps} {TAGS[dtype]}", torch.logit, unit, eps)
            yield case(f"logit {eps} of gapped {TAGS[dtype]}", torch.logit, gapped(unit), eps)
        for where, x0 in {"": unit, "of gapped": gapped(unit)}.items():
            yield case(f"polygamma {where} {TAGS[dtype]}", lambda x: torch.polygamma(2, x), x0)
        for name, function in ACTIVATIONS.items():
            yield case(f"{name} {TAGS[dtype]}", function, x, reference="same")
            yield case(f"{name} of gapped {TAGS[dtype]}", function, gapped(x), reference="same")
        for name, function in BACKWARD.items():
            yield case(f"{name} backward {TAGS[dtype]}", function, g, x, reference="same")
            yield case(f"{name} backward of gapped {TAGS[dtype]}", function, gapped(g), gapped(x), reference="same")
        gate = matrix(dtype, seed=2)
        yield case(f"swiglu backward {TAGS[dtype]}", swiglu_backward, g, x, gate)
        yield case(f"swiglu backward of gapped {TAGS[dtype]}", swiglu_backward, *map(gapped, (g, x, gate)))
        packed = torch.cat([x, gate], 1)
        yield case(f"swiglu backward of halves {TAGS[dtype]}", swiglu_packed_backward, g, packed)


def crosses() -> Iterator[Case]:
    """Generate cross products of contiguous and of strided vectors."""
    for dtype in DTYPES["REAL"]:
        x, y = values(50, 3, dtype=dtype), values(50, 3, dtype=dtype, seed=1)
        yield case(f"cross {TAGS[dtype]}", torch.linalg.cross, x, y, reference="same")
        x, y = values(2, 3, 40, dtype=dtype), values(2, 3, 40, dtype=dtype, seed=1)
        yield case(f"cross of planes {TAGS[dtype]}", lambda a, b: torch.linalg.cross(a, b, dim=1), x, y,
                   reference="same")  # fmt: skip


def cases() -> Iterator[Case]:
    yield from crosses()
    yield from unary_cases()
    yield from binary_cases()
    yield from mixed_types()
    yield from three_operands()
    yield from renorm_cases()
    yield from activation_cases()
