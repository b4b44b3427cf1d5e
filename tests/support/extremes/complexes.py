"""Operators on complex numbers, for all pairs of special values as real and imaginary parts."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .compare import Case
from .elementwise import function

G = torch.Generator
COMPLEX_UNARY = (
    "neg abs angle sgn conj_physical square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin "
    "acos atan sinh cosh tanh asinh acosh atanh sigmoid sinc isnan isinf isfinite pow2 pow3 pow_half pow_minus1"
).split()
COMPLEX_BINARY = ("add", "sub", "mul", "div", "pow", "eq")


def complex_pairs(g: G) -> torch.Tensor:
    f = torch.finfo(torch.float32)
    v = [0.0, 0.5, 1.0, 1 + f.eps, 1 - f.eps / 2, 2.0, 3.14159274, 1.57079637, 9.5, 40.0, 80.5, 88.5, 89.5, 104.0]
    v += [180.0, 1e4, 1e10, 1.5e19, 2e19, 1e30, f.max / 2, f.max, f.tiny, f.tiny * f.eps]
    v += [1e-30, 1e-19, 1e-10, 1e-4, float("inf")]
    v = torch.tensor([*v, *(-x for x in v), float("nan")])
    both = torch.cartesian_prod(v, v)
    return torch.complex(both[:, 0], both[:, 1])


def complex_unary(g: G) -> Iterator[Case]:
    for name in COMPLEX_UNARY:
        z = complex_pairs(g)
        z = z[torch.randperm(len(z), generator=g)]
        yield Case(name + " c64", function(name), [z], False, 64.0)
        yield Case(name + " c64 grad", function(name), [z[:500]], not name.startswith("is"), 256.0)


def complex_binary(g: G) -> Iterator[Case]:
    z = complex_pairs(g)
    for name in COMPLEX_BINARY:
        a, b = (z[torch.randint(len(z), (1500,), generator=g)] for _ in range(2))
        yield Case(name + " c64", function(name), [a, b], False, 256.0)
    for name in ("sum", "mean", "prod", "cumsum0", "cumprod0"):
        f = (lambda x, n=name[:-1]: getattr(torch, n)(x, 0)) if name[-1] == "0" else function(name)
        for _ in range(8):
            yield Case(name + " c64", f, [z[torch.randint(len(z), (5,), generator=g)]], False, 256.0, True)
