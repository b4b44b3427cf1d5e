"""Optimizers: operators on lists of tensors, fused steps, and gradient scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from tables import FLOAT, TAGS, rows

from kernel_cases import Case, case, values

SHAPES = ((), (3, 5), (1000,), (9000,))  # the last tensor needs several threadgroups


def tensors(dtype: torch.dtype, seed: int, low: float = 0.2, high: float = 2.0) -> list[torch.Tensor]:
    return [values(*shape, dtype=dtype, seed=seed, low=low, high=high) for shape in SHAPES]


def foreach(name: str) -> Callable[..., list[torch.Tensor]]:
    return getattr(torch, f"_foreach_{name}")


def list_cases() -> Iterator[Case]:
    table = "optim/foreach.def"
    unary = [row[0] for row in rows(table, "MPSX_FOREACH_UNARY", 1)]
    binary = [row[0] for kind in ("SCALED", "BINARY") for row in rows(table, f"MPSX_FOREACH_{kind}", 1)]
    pointwise = [row[0] for row in rows(table, "MPSX_FOREACH_POINTWISE", 1)]
    for dtype in FLOAT:
        a, b, c, tag = tensors(dtype, 1), tensors(dtype, 2), tensors(dtype, 3), TAGS[dtype]
        for name in unary:
            yield case(f"foreach {name} {tag}", foreach(name), a)
        for name in binary:
            yield case(f"foreach {name} by a number {tag}", foreach(name), a, 2)
            yield case(f"foreach {name} by numbers {tag}", foreach(name), a, [2.0, 0.5, 1.0, 1.5])
            yield case(f"foreach {name} {tag}", foreach(name), a, b)
        for name in pointwise:
            yield case(f"foreach {name} {tag}", foreach(name), a, b, c, 2)
        for name in ("add", "mul", "div"):
            yield case(f"foreach {name} by a tensor {tag}", getattr(torch.ops.aten, f"_foreach_{name}").Tensor, a,
                       values(dtype=dtype, low=1, high=2))  # fmt: skip
        yield case(f"foreach lerp by a number {tag}", torch._foreach_lerp, a, b, 0.3)
        yield case(f"foreach lerp {tag}", torch._foreach_lerp, a, b, tensors(dtype, 3, 0, 1))
        yield case(f"foreach zero {tag}", lambda x: (torch._foreach_zero_(x), x), a)
        yield case(f"foreach copy {tag}", lambda x, y: (torch._foreach_copy_(x, y), x), a, b)
        for order in (1, 2, float("inf")):
            yield case(f"foreach norm {order} {tag}", torch._foreach_norm, a, order)


def step_cases() -> Iterator[Case]:
    def adam(name: str, amsgrad: bool) -> Callable[..., list]:
        def step(p: list, g: list, m: list, v: list, top: list, steps: list) -> list:
            getattr(torch, name)(p, g, m, v, top if amsgrad else [], steps, lr=0.1, beta1=0.9, beta2=0.99,
                                 weight_decay=0.1, eps=1e-6, amsgrad=amsgrad, maximize=False)  # fmt: skip
            return [p, m, v, top]
        return step

    def sgd(momentum: float, nesterov: bool) -> Callable[..., list]:
        def step(p: list, g: list, buffers: list) -> list:
            torch._fused_sgd_(p, g, buffers if momentum else [], weight_decay=0.1, momentum=momentum, lr=0.1,
                              dampening=0.0, nesterov=nesterov, maximize=False, is_first_step=False)  # fmt: skip
            return [p, buffers]
        return step

    for dtype in FLOAT:
        p, g, m, v, top = (tensors(dtype, s) for s in range(5))
        steps = [torch.tensor(3.0) for _ in SHAPES]
        tag = TAGS[dtype]
        for name in ("adam", "adamw"):
            for amsgrad in (False, True):
                yield case(f"fused {name}{' amsgrad' if amsgrad else ''} {tag}", adam(f"_fused_{name}_", amsgrad), p, g,
                           m, v, top, steps)  # fmt: skip
        for momentum, nesterov in ((0.0, False), (0.9, False), (0.9, True)):
            yield case(f"fused sgd {momentum} {nesterov} {tag}", sgd(momentum, nesterov), p, g, m)


def scale_cases() -> Iterator[Case]:
    def unscale(gradients: list, found: torch.Tensor, scale: torch.Tensor) -> list:
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, scale)
        return [gradients, found]

    for dtype in FLOAT:
        bad = tensors(dtype, 1)
        bad[2][5] = float("inf")
        for name, gradients in (("finite", tensors(dtype, 1)), ("infinite", bad)):
            yield case(f"unscale {name} {TAGS[dtype]}", unscale, gradients, torch.zeros(1), torch.tensor([0.25]),
                       reference="same")  # fmt: skip
    yield case("amp scale", lambda s, t, f: (torch._amp_update_scale_(s, t, f, 2.0, 0.5, 2), t), torch.ones(1),
               torch.zeros(1, dtype=torch.int32), torch.zeros(1), reference="same")  # fmt: skip


def cases() -> Iterator[Case]:
    yield from list_cases()
    yield from step_cases()
    yield from scale_cases()
