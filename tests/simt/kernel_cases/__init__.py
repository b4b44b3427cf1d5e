"""Operator calls that together launch every kernel. Each module covers one family with a generator `cases()`.

If a kernel is launched by no case, tests/simt/test_every_kernel.py fails. In that event, add a case to the family's
module: a name, a function, and its tensors. The function runs on the device and on the CPU.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from layouts import on_device

# Kernels that no case can launch, with reasons.
OUT_OF_REACH: dict[str, str] = {}


@dataclass(frozen=True)
class Case:
    """A call of `function` with `inputs`: tensors, lists of tensors, or other values."""

    name: str
    function: Callable[..., Any]
    inputs: tuple
    # The CPU reference. "exact": call the function with float64 tensors, and round once. "same": use the dtypes of the
    # inputs. "none": there is no CPU reference, for example for random numbers.
    reference: str
    # A function of the float64 inputs that returns each result's error bound, in rounding errors of the result's dtype.
    # If it is None, the tolerances of torch.testing apply.
    error: Callable[..., list[torch.Tensor]] | None = None


def case(name: str, function: Callable[..., Any], *inputs: Any, reference: str = "exact", **more: Any) -> Case:
    """Create a case. See Case for the arguments."""
    return Case(name, function, inputs, reference, **more)


def all_cases() -> Iterator[Case]:
    for module in pkgutil.iter_modules(__path__):
        yield from importlib.import_module(f"{__name__}.{module.name}").cases()


def values(
    *shape: int, dtype: torch.dtype = torch.float32, low: float = -3, high: float = 3, seed: int = 0
) -> torch.Tensor:
    """Return random numbers in [low, high], or random bools."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)
    first = max(0, int(low)) if dtype == torch.uint8 else int(low)
    return torch.randint(first, int(high) + 1, shape, generator=generator).to(dtype)


def integers(*shape: int, dtype: torch.dtype, low: float = -3, high: float = 3, seed: int = 0) -> torch.Tensor:
    """Return random integers in [low, high]. Their sums are exact."""
    x = values(*shape, dtype=dtype, low=low, high=high, seed=seed)
    return x.round() if dtype.is_floating_point else x


def gapped(t: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor with a gap after every element."""
    wide = torch.zeros((*t.shape, 2), dtype=t.dtype)
    wide[..., 0] = t
    return wide[..., 0]


def _move(value: Any, device: str, widen: bool) -> Any:
    if isinstance(value, torch.Tensor):
        if device == "cpu":
            return value.double() if widen and value.is_floating_point() else value.clone()
        return on_device(value, device)
    if isinstance(value, list):
        return [_move(v, device, widen) for v in value]
    return value


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value.detach().cpu()
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(v)


def run(c: Case, device: str) -> list[torch.Tensor]:
    """Run the case on `device`, and return the results on the CPU."""
    torch.manual_seed(0)
    return list(_tensors(c.function(*(_move(v, device, c.reference == "exact") for v in c.inputs))))


def error_bounds(c: Case) -> list[torch.Tensor] | None:
    """Return the error bound of each result, or None if the case does not define any."""
    if c.error is None:
        return None
    inputs = [_move(v, "cpu", True) for v in c.inputs]
    unit = torch.finfo(c.inputs[0].dtype).eps / 2
    return [unit * bound for bound in c.error(*inputs)]
