"""Reductions, scans and softmax."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from .compare import Case
from .values import FLOATS, REGIMES, regime, some_layout

G = torch.Generator
SHAPES = ((4, 3), (3, 2), (5, 8), (2, 70), (70, 3), (2, 3, 5), (1, 1000), (600, 5), (1, 1), (2, 1))
REDUCTIONS: dict[str, Callable] = {
    "sum": lambda x, d: x.sum(d),
    "nansum": lambda x, d: x.nansum(d),
    "mean": lambda x, d: x.mean(d),
    "nanmean": lambda x, d: x.nanmean(d),
    "prod": lambda x, d: x.prod(d),
    "amax": lambda x, d: x.amax(d),
    "norm1": lambda x, d: torch.linalg.vector_norm(x, 1, d),
    "norm2": lambda x, d: torch.linalg.vector_norm(x, 2, d),
    "norm3": lambda x, d: torch.linalg.vector_norm(x, 3, d),
    "norm_half": lambda x, d: torch.linalg.vector_norm(x, 0.5, d),
    "norm_inf": lambda x, d: torch.linalg.vector_norm(x, float("inf"), d),
    "var": lambda x, d: x.var(d),
    "std": lambda x, d: x.std(d),
    "var0": lambda x, d: x.var(d, correction=0),
    "var_mean": torch.var_mean,
    "std_mean": torch.std_mean,
    "logsumexp": lambda x, d: x.logsumexp(d),
    "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d),
    "softmin": F.softmin,
    "cumsum": lambda x, d: x.cumsum(d),
    "cumprod": lambda x, d: x.cumprod(d),
    "logcumsumexp": lambda x, d: x.logcumsumexp(d),
    "normalize": lambda x, d: F.normalize(x, dim=d),
    "renorm": lambda x, d: x.renorm(2, d, 3.0),
    "sum all": lambda x, d: x.sum(),
    "mean all": lambda x, d: x.mean(),
    "std all": lambda x, d: x.std(),
    "var all": lambda x, d: x.var(),
    "norm all": lambda x, d: x.norm(),
    "diff": lambda x, d: x.diff(dim=d),
    "cov": lambda x, d: torch.cov(x.reshape(x.shape[0], -1)),
}


def reductions(g: G) -> Iterator[Case]:
    for name, f in REDUCTIONS.items():
        for dtype in FLOATS:
            for kind in REGIMES:
                shape = SHAPES[int(torch.randint(len(SHAPES), (), generator=g))]
                x = some_layout(regime(kind, dtype, shape, g), g)
                d = int(torch.randint(x.dim(), (), generator=g))
                about, gradient = f"{name} {kind} {shape} dim {d}", name not in ("renorm", "cov")
                yield Case(about, lambda x, f=f, d=d: f(x, d), [x], gradient, 32.0, True)
