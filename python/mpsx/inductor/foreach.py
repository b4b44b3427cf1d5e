"""Lower torch._foreach_* to the rows of metal/optim/foreach.def, one tensor at a time.

Eager list kernels instantiate the same rows, so compiled optimizers compute the same numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import lowering
from torch._inductor.ir import TensorBox
from torch._ops import OpOverload

from .signatures import Call
from .tables import Row, rows

ROUNDED = ("foreach_add", "foreach_sub", "foreach_pow")  # round scalars to the dtype first (src/ops/optim/foreach.cpp)


def _items(value: Any, count: int) -> Any:
    """Return a list with one value per tensor."""
    return value if isinstance(value, list | tuple) else [value] * count


def _supported(values: Any) -> bool:
    """Return whether all values are numbers or tensors on mpsx."""
    return all(isinstance(v, int | float) or (isinstance(v, TensorBox) and v.get_device().type == "mpsx")
               for v in values)  # fmt: skip


def _rounded(row: Row, x: TensorBox, number: Any) -> Any:
    """Return a scalar as the list kernels use it, rounded to the dtype where they round it."""
    if row.name not in ROUNDED or x.get_dtype() not in (torch.float16, torch.bfloat16):
        return number
    return number if isinstance(number, TensorBox) else torch.tensor(number, dtype=x.get_dtype()).item()


def _unary(row: Row) -> Callable[..., Call]:
    return lambda xs: [(row.name, [x], ()) for x in xs]


def _binary(row: Row) -> Callable[..., Call]:
    def calls(xs: list[TensorBox], y: Any, alpha: float = 1) -> Call:
        ys = _items(y, len(xs))
        if not _supported([*ys, alpha]):
            return None
        return [(row.name, [x, _rounded(row, x, y)], [_rounded(row, x, alpha)]) for x, y in zip(xs, ys, strict=True)]

    return calls


def _pointwise(row: Row) -> Callable[..., Call]:
    def calls(xs: list[TensorBox], ys: list[TensorBox], zs: list[TensorBox], value: Any = 1) -> Call:
        values = _items(value, len(xs))
        if not all(isinstance(v, int | float) for v in values):
            return None
        return [(row.name, [x, y, z], [s]) for x, y, z, s in zip(xs, ys, zs, values, strict=True)]

    return calls


def _lerp(xs: list[TensorBox], ends: list[TensorBox], weight: Any) -> Call:
    weights = _items(weight, len(xs))
    if not _supported(weights):
        return None
    return [("lerp", [x, end, w], ()) if isinstance(w, TensorBox) else ("lerp_number", [x, end], (w,))
            for x, end, w in zip(xs, ends, weights, strict=True)]  # fmt: skip


def _power_of_number(base: float, exponents: list[TensorBox]) -> Call:
    return [("pow", [base, x], ()) for x in exponents] if _supported([base]) else None


def signatures() -> dict[OpOverload, Callable[..., Call]]:
    """Map each overload to a function that returns what it computes, in the format of signatures.SIGNATURES."""
    by_operands = {1: _unary, 2: _binary, 3: _pointwise}
    found = {}
    for row in rows().values():
        if row.table == "foreach":
            packet = getattr(torch.ops.aten, f"_{row.name}")
            for overload in {"default", "Scalar", "List", "ScalarList", "Tensor"} & set(packet.overloads()):
                found[getattr(packet, overload)] = by_operands[len(row.operands)](row)
    lerp = torch.ops.aten._foreach_lerp
    found |= dict.fromkeys((lerp.List, lerp.Scalar, lerp.ScalarList), _lerp)
    found[torch.ops.aten._foreach_pow.ScalarAndTensor] = _power_of_number
    return found


def in_place(operator: OpOverload, on_mpsx: Callable[[Any], bool]) -> Callable[..., Any]:
    """Return the lowering of an in-place overload. PyTorch's version would call the old lowering of `operator`."""
    previous = lowering.lowerings[lowering.inplaceable_foreach_ops[operator]]

    @functools.wraps(previous)
    def lower(*args: Any, **kwargs: Any) -> Any:
        if not on_mpsx((args, kwargs)):
            return previous(*args, **kwargs)
        results = lowering.lowerings[operator](*args, **kwargs)
        return [lowering.mutate_to(x, result, unsafe_alias=True) for x, result in zip(args[0], results, strict=True)]

    return lower
