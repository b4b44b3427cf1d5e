"""Normalizations with ordinary and special values as parameters and statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from .compare import Case
from .values import FLOATS, REGIMES, picked, regime, some_layout

G = torch.Generator


SHAPES = ((2, 6, 3, 5), (3, 4, 1), (2, 4, 40), (1, 6, 8, 8), (4, 8))


def native_batch_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> list:
    """Return the results and the updated running statistics."""
    m, v = m.clone(), v.clone()
    return [*torch.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-5), m, v]


def cases(x: torch.Tensor, about: str, vectors: list[torch.Tensor]) -> Iterator[Case]:
    """Generate all normalizations of one input.

    vectors: the weight, bias, mean and variance per channel, followed by the weight and bias for rows.
    """
    shape, n, size = tuple(x.shape), x.shape[-1], x[0, 0].numel()
    w, b, mean, var, wn, bn = vectors

    def case(name: str, f: Callable, *others: torch.Tensor, gradient: bool = True) -> Case:
        return Case(f"{name} {about}", f, [x, *others], gradient, 32.0, True)

    yield case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), w, b)
    yield case("group_norm plain", lambda x: F.group_norm(x, 2))
    yield case("layer_norm", lambda x, w, b: F.layer_norm(x, (n,), w, b), wn, bn)
    yield case("rms_norm", lambda x, w: F.rms_norm(x, (n,), w), wn)
    yield case("rms_norm plain", lambda x: F.rms_norm(x, (n,)))
    yield case("native_group_norm", lambda x, w, b: torch.native_group_norm(
        x.contiguous(), w, b, shape[0], shape[1], size, 2, 1e-5), w, b, gradient=False)  # fmt: skip
    yield case("native_layer_norm", lambda x, w, b: torch.native_layer_norm(x, (n,), w, b, 1e-5), wn, bn,
               gradient=False)  # fmt: skip
    yield case("batch_norm eval", lambda x, w, b, m, v: F.batch_norm(x, m.detach(), v.detach(), w, b), w, b, mean, var)
    if shape[0] * size > 1:
        yield case("batch_norm train", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), w, b)
        yield case("native_batch_norm", native_batch_norm, w, b, mean, var, gradient=False)
    if size > 1:
        yield case("instance_norm", lambda x, w, b: F.instance_norm(x, None, None, w, b), w, b)
        yield case("instance_norm stats", lambda x, w, b, m, v: F.instance_norm(
            x, m.detach(), v.detach(), w, b, False), w, b, mean, var)  # fmt: skip


def norms(g: G) -> Iterator[Case]:
    for dtype in FLOATS:
        for kind in REGIMES:
            for special in (0.0, 0.2):  # fraction of parameters that are special values
                shape = SHAPES[int(torch.randint(len(SHAPES), (), generator=g))]
                x = some_layout(regime(kind, dtype, shape, g), g)
                sizes = (shape[1], shape[1], shape[-1], shape[-1])
                w, b, wn, bn = (picked(dtype, (k,), g, 1.0 - special) for k in sizes)
                mean, var = (regime(kind, dtype, (shape[1],), g) for _ in range(2))
                about = f"{kind}{' special' if special else ''} {shape}"
                yield from cases(x, about, [w, b, mean, var.abs(), wn, bn])
