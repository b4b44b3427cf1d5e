"""Kernels get unresolved lazy conjugation and negation from composite kernels inside a TorchDispatchMode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._C import DispatchKey, DispatchKeySet
from torch.utils._python_dispatch import TorchDispatchMode

Function = Callable[[torch.Tensor, torch.Tensor], Any]
RESOLVING_KEYS = DispatchKeySet(DispatchKey.Conjugate) | DispatchKeySet(DispatchKey.Negative)


class Transparent(TorchDispatchMode):
    """Calls each operator without changes."""

    def __torch_dispatch__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(1)).to("mpsx")


def gradient(function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    x = random(5).requires_grad_()
    function(x).backward(torch.full_like(x, 1 + 2j))
    return x.grad


FUNCTIONS: dict[str, Function] = {
    "mul": lambda a, b: a * b,
    "in-place mul": lambda a, b: b.conj_physical().conj().mul_(a),
    "addcmul": lambda a, b: torch.addcmul(a, a, b),
    "exp": lambda a, b: b.exp(),
    "angle": lambda a, b: b.angle(),
    "where": lambda a, b: torch.where(a.real > 0, a, b),
    "sum": lambda a, b: b.sum(0),
    "cumsum": lambda a, b: b.cumsum(0),
    "cat": lambda a, b: torch.cat([a, b]),
    "foreach": lambda a, b: torch._foreach_mul([a, b], [b, b])[1],
    "index": lambda a, b: b[[0, 2]],
    "index_put": lambda a, b: a.index_put((torch.tensor([0, 2], device=b.device),), b[:2]),
    "mm": torch.mm,
    "outer": lambda a, b: torch.outer(a[0], b[0]),
    "fft": lambda a, b: torch.fft.fft(b),
    "negative": lambda a, b: b.imag * 2,
    "item": lambda a, b: torch.tensor(b[0, 1].item()),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_resolve_arguments(name: str, no_fallback: None) -> None:
    function, a, b = FUNCTIONS[name], random(3, 3), random(2, 3, 3)[1]
    expected = function(a, b.conj().resolve_conj())
    with torch._C._ExcludeDispatchKeyGuard(RESOLVING_KEYS):
        found = function(a, b.conj())
    torch.testing.assert_close(found.resolve_conj().resolve_neg(), expected.resolve_neg())


@pytest.mark.parametrize("function", [
    lambda: torch.linalg.pinv(random(5, 4)),
    lambda: gradient(torch.tanh),
    lambda: gradient(torch.sigmoid),
], ids=["pinv", "tanh", "sigmoid"])  # fmt: skip
def test_composites_in_dispatch_mode(function: Callable[[], torch.Tensor]) -> None:
    expected = function()
    with Transparent():
        found = function()
    torch.testing.assert_close(found, expected)
