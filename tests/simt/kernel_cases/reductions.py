"""Reductions along rows, along columns, and split across several threadgroups."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from tables import DTYPES, FLOAT, TAGS, rows

from kernel_cases import Case, case, values

vector_norm = torch.linalg.vector_norm
REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "prod": torch.prod,
    "count_nonzero": torch.count_nonzero,
    "norm_0": lambda x, dim: vector_norm(x, 0, dim),
    "norm_1": lambda x, dim: vector_norm(x, 1, dim),
    "norm_2": lambda x, dim: vector_norm(x, 2, dim),
    "norm_p": lambda x, dim: vector_norm(x, 3.5, dim),
    "norm_max": lambda x, dim: vector_norm(x, float("inf"), dim),
    "norm_min": lambda x, dim: vector_norm(x, -float("inf"), dim),
}
# The last shape is a single long reduction, which the launcher splits.
SHAPES = {"rows": ((7, 261), 1), "columns": ((67, 45), 0), "parts of rows": ((33000,), 0)}


def factors(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Return a tensor that consists mostly of ones, so that products stay small."""
    x = torch.ones(shape, dtype=dtype)
    x.view(-1)[::97] = 2 if dtype != torch.bool else True
    return x


def reductions() -> Iterator[Case]:
    for name, types in rows("reduce/reduce.def", "MPSX_REDUCTION", 2):
        function = REDUCTIONS.get(name) or getattr(torch, name)
        for dtype in DTYPES[types]:
            for where, (shape, dim) in SHAPES.items():
                x = factors(dtype, *shape) if name == "prod" else values(*shape, dtype=dtype)
                if name in ("sum", "nansum", "mean") and dtype in FLOAT:
                    x = x.abs()  # avoids cancellation
                label = f"{name} of {where} {TAGS[dtype]}"
                reference = "exact" if dtype in FLOAT else "same"
                yield case(label, function, x, dim, reference=reference)
                if dtype in FLOAT[1:] and name in WIDENING:
                    yield case(f"{label} in f32", WIDENING[name], x.abs(), dim)


def complex_sums() -> Iterator[Case]:
    for name in ("sum", "mean"):
        for where, (shape, dim) in SHAPES.items():
            x = torch.complex(values(*shape).abs(), values(*shape, seed=1).abs())
            yield case(f"{name} of {where} c64", getattr(torch, name), x, dim)


def extrema() -> Iterator[Case]:
    """Generate extrema with sizes that fit in one threadgroup and sizes that need several."""
    for dtype in DTYPES["ALL"]:
        for shape in ((7, 261), (70_001,)):
            x = values(*shape, dtype=dtype)
            yield case(f"aminmax of {shape} {TAGS[dtype]}", torch.aminmax, x, reference="same")


WIDENING = {
    "sum": lambda x, dim: torch.sum(x, dim, dtype=_wider(x)),
    "nansum": lambda x, dim: torch.nansum(x, dim, dtype=_wider(x)),
    "mean": lambda x, dim: torch.mean(x, dim, dtype=_wider(x)),
    "prod": lambda x, dim: torch.prod(x, dim, dtype=_wider(x)),
    **{f"norm_{k}": lambda x, dim, p=p: vector_norm(x, p, dim, dtype=_wider(x)) for k, p in {
        "0": 0, "1": 1, "2": 2, "p": 3.5, "max": float("inf"), "min": -float("inf")}.items()},
}  # fmt: skip


def _wider(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def positions() -> Iterator[Case]:
    for name, function in (("argmax", torch.argmax), ("argmin", torch.argmin)):
        for dtype in DTYPES["ALL"]:
            for where, (shape, dim) in SHAPES.items():
                x = values(*shape, dtype=dtype, low=-100, high=100)
                yield case(f"{name} of {where} {TAGS[dtype]}", function, x, dim,
                           reference="none" if dtype == torch.bool else "same")  # fmt: skip


def variances() -> Iterator[Case]:
    for dtype in FLOAT:
        for where, (shape, dim) in SHAPES.items():
            x = values(*shape, dtype=dtype, low=97, high=103)
            yield case(f"var_mean of {where} {TAGS[dtype]}", torch.var_mean, x, dim)


def traces() -> Iterator[Case]:
    for dtype in DTYPES["REAL"]:
        x = values(300, 301, dtype=dtype, low=-100, high=100)
        yield case(f"trace {TAGS[dtype]}", lambda x: (x.trace(), x[:, 7:].t().trace(), x[:3, :1].trace()), x,
                   reference="exact" if dtype in FLOAT else "same")  # fmt: skip


def cases() -> Iterator[Case]:
    yield from reductions()
    yield from complex_sums()
    yield from extrema()
    yield from positions()
    yield from variances()
    yield from traces()
