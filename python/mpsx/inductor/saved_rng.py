"""Random operators that activation checkpointing recomputes, with Inductor's option fallback_random.

PyTorch saves and restores the device's random state around such an operator with two higher-order operators, which
accept a fixed list of devices. Add mpsx to both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch._prims import rng_prims


def save(op: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
    """Return the random state and the operator's result."""
    return torch.mpsx.get_rng_state(), op(*args, **kwargs)


def run_again(state: torch.Tensor, op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the operator's result for a saved random state."""
    current = torch.mpsx.get_rng_state()
    torch.mpsx.set_rng_state(state)
    try:
        return op(*args, **kwargs)
    finally:
        torch.mpsx.set_rng_state(current)


def add_mpsx(higher_order: HigherOrderOperator, own: Callable[..., Any], arguments: int) -> None:
    """Let a higher-order operator call `own` for operators on mpsx, whose arguments follow its own `arguments`."""
    previous = higher_order.py_kernels[DispatchKey.BackendSelect]

    @functools.wraps(previous)
    def select(*args: Any, **kwargs: Any) -> Any:
        device = rng_prims.get_device(args[arguments:], kwargs)
        return (own if device == "mpsx" else previous)(*args, **kwargs)

    higher_order.py_kernels[DispatchKey.BackendSelect] = select
    higher_order._dispatch_cache.clear()
    # The implementations for tracing call the function that `previous` is by its name in the enclosing function.
    for traced in higher_order.python_key_table.values():
        for cell in traced.__closure__ or ():
            if cell.cell_contents is previous:
                cell.cell_contents = select


def install() -> None:
    """Add mpsx to both operators."""
    add_mpsx(rng_prims.run_and_save_rng_state, save, 1)
    add_mpsx(rng_prims.run_with_rng_state, run_again, 2)
