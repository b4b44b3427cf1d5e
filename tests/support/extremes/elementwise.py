"""Elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from .compare import Case
from .values import FLOATS, laid_out, picked, pool, some_layout

G = torch.Generator

UNARY = (
    "neg abs sign sgn reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh "
    "cosh tanh asinh acosh atanh erf erfc erfinv sigmoid logit floor ceil trunc round frac relu square lgamma "
    "digamma sinc i0 angle deg2rad rad2deg nan_to_num positive signbit isfinite isnan isinf isposinf isneginf "
    "special.i0e special.i1 special.i1e special.entr special.erfcx special.ndtri special.ndtr special.log_ndtr "
    "special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 special.modified_bessel_i0 "
    "special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1 "
    "special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.spherical_bessel_j0 "
    "special.airy_ai special.xlogy_self nn.functional.gelu nn.functional.silu nn.functional.mish "
    "nn.functional.elu nn.functional.selu nn.functional.celu nn.functional.softplus nn.functional.logsigmoid "
    "nn.functional.hardswish nn.functional.hardsigmoid nn.functional.hardtanh nn.functional.relu6 "
    "nn.functional.leaky_relu nn.functional.softsign nn.functional.tanhshrink nn.functional.hardshrink "
    "nn.functional.softshrink polygamma1 polygamma2 polygamma3 polygamma5 polygamma0 gelu_tanh mvlgamma2 pow2 "
    "pow3 pow_half pow_third pow_minus1 pow_minus2 pow_minus_half exp_base glu softplus_beta elu_alpha rsub "
    "mul_number div_number round_decimals round_tens clamp threshold logit_eps"
).split()
NAMED: dict[str, Callable] = {
    "special.xlogy_self": lambda x: torch.xlogy(x, x),
    "polygamma0": lambda x: torch.polygamma(0, x),
    "polygamma1": lambda x: torch.polygamma(1, x),
    "polygamma2": lambda x: torch.polygamma(2, x),
    "polygamma3": lambda x: torch.polygamma(3, x),
    "polygamma5": lambda x: torch.polygamma(5, x),
    "mvlgamma2": lambda x: torch.mvlgamma(x.abs().nan_to_num(2.0) + 1.0, 2),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "pow2": lambda x: x**2,
    "pow3": lambda x: x**3,
    "pow_half": lambda x: x**0.5,
    "pow_third": lambda x: x**0.3,
    "pow_minus1": lambda x: x**-1,
    "pow_minus2": lambda x: x**-2,
    "pow_minus_half": lambda x: x**-0.5,
    "exp_base": lambda x: 0.3**x,
    "glu": lambda x: F.glu(torch.stack([x, x.flip(0)]), 0),
    "softplus_beta": lambda x: F.softplus(x, 3.0, 5.0),
    "elu_alpha": lambda x: F.elu(x, 1.7),
    "rsub": lambda x: 3.0 - x,
    "mul_number": lambda x: x * 4.0,
    "div_number": lambda x: x / 0.3,
    "round_decimals": lambda x: torch.round(x, decimals=2),
    "round_tens": lambda x: torch.round(x, decimals=-2),
    "clamp": lambda x: x.clamp(-2.0, 1e3),
    "threshold": lambda x: F.threshold(x, 0.5, 0.1),
    "logit_eps": lambda x: torch.logit(x, 1e-3),
}
NO_GRADIENT = {"signbit", "isfinite", "isnan", "isinf", "isposinf", "isneginf"} | {
    name for name in UNARY if "bessel" in name or name in ("special.airy_ai",)
}
LOOSE = {
    name: 64.0 for name in UNARY if name.startswith("special") or "gamma" in name or name in ("i0", "erfinv", "tan")
}
BINARY = (
    "add sub mul div maximum minimum fmax fmin atan2 hypot copysign pow fmod remainder floor_divide true_divide "
    "logaddexp logaddexp2 xlogy special.xlog1py special.zeta nextafter heaviside float_power ldexp lt eq "
    "igamma igammac add_alpha sub_alpha nn.functional.prelu_ lerp_number special.hermite_polynomial_h_"
).split()
BINARY = [b for b in BINARY if not b.endswith("_")]
NAMED |= {
    "add_alpha": lambda a, b: torch.add(a, b, alpha=3.0),
    "sub_alpha": lambda a, b: torch.sub(a, b, alpha=0.25),
    "lerp_number": lambda a, b: torch.lerp(a, b, 0.3),
}
BINARY_NO_GRADIENT = {
    "nextafter",
    "heaviside",
    "lt",
    "eq",
    "igamma",
    "igammac",
    "special.zeta",
    "float_power",
    "floor_divide",
}


def function(name: str) -> Callable:
    if name in NAMED:
        return NAMED[name]
    found = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found


def unary(g: G) -> Iterator[Case]:
    for name in UNARY:
        for dtype in FLOATS:
            x = pool(dtype)
            x = x[torch.randperm(len(x), generator=g)]
            x = x if torch.rand((), generator=g) < 0.7 else laid_out(x, "step")
            yield Case(name, function(name), [x], name not in NO_GRADIENT, LOOSE.get(name, 16.0))


def binary(g: G) -> Iterator[Case]:
    for name in BINARY:
        for dtype in FLOATS:
            n = (40, 33)
            a, b = (some_layout(picked(dtype, n, g, 0.2), g) for _ in range(2))
            yield Case(name, function(name), [a, b], name not in BINARY_NO_GRADIENT, 32.0)


Ternary = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


def ternary_functions(value: float) -> dict[str, Ternary]:
    """Return functions of three tensors, some of which also take the scale `value`."""
    number = torch.tensor([value, 2.0])
    scaled = ("_foreach_addcmul", "_foreach_addcdiv")
    many = {name: (getattr(torch, name), getattr(torch, f"{name}_")) for name in scaled}
    found: dict[str, Ternary] = {
        "addcmul": lambda x, a, b: torch.addcmul(x, a, b, value=value),
        "addcdiv": lambda x, a, b: torch.addcdiv(x, a, b, value=value),
        "lerp": torch.lerp,
        "_foreach_lerp": lambda x, a, b: torch._foreach_lerp([x], [a], [b]),
        "_foreach_add alpha": lambda x, a, b: torch._foreach_add([x], [a], alpha=value),
        "_foreach_pow": lambda x, a, b: torch._foreach_pow([x], [a]),
        "_foreach_norm": lambda x, a, b: torch._foreach_norm([x[0], a, b[1]], 2),
        "_foreach_rsqrt": lambda x, a, b: torch._foreach_rsqrt([x]),
        "clamp tensors": torch.clamp,
        "glu gate": lambda x, a, b: F.glu(torch.cat([x, a], 1), 1) + b,
    }
    for name, (f, in_place) in many.items():
        found |= {
            name: lambda x, a, b, f=f: f([x], [a], [b], value=value),
            f"{name} list": lambda x, a, b, f=f: f([x, x], [a, b], [b, x], [value, 2.0]),
            f"{name} tensor": lambda x, a, b, f=f: f([x, x], [a, b], [b, x], number),
            f"{name}_": lambda x, a, b, f=in_place: foreach_in_place(f, x, a, b, value),
        }
    return found


def ternary(g: G) -> Iterator[Case]:
    for value in (1.0, 0.25, -4.0):
        for name, f in ternary_functions(value).items():
            for dtype in FLOATS:
                inputs = [some_layout(picked(dtype, (30, 33), g, 0.2), g) for _ in range(3)]
                differentiable = name in ("addcmul", "addcdiv", "lerp")
                yield Case(f"{name} {value}", f, inputs, differentiable, 32.0, name == "_foreach_norm")


def foreach_in_place(
    f: Callable, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, value: float
) -> list[torch.Tensor]:
    out = [x.clone(), x.clone().add(1)]
    f(out, [a, b], [b, a], value=value)
    return out
