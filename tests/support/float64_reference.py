"""Compare values and gradients with PyTorch's float64 results, rounded to the dtype under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from layouts import on_device
from torch.utils._pytree import tree_leaves, tree_map


def compare(function: Callable[..., Any], *inputs: Any, gradient: bool = True, **tolerance: float) -> None:
    """Compare the results, which may be tuples. If `gradient` is set, also compare the gradients of the inputs."""

    def converted(convert: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
        def leaf(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            return convert(value.detach()).requires_grad_(gradient and value.is_floating_point())

        return [tree_map(leaf, value) for value in inputs]

    def double(t: torch.Tensor) -> torch.Tensor:
        return t.double() if t.is_floating_point() else t

    device, exact = converted(on_device), converted(double)
    got, expected = tree_leaves(function(*device)), tree_leaves(function(*exact))
    dtype = next(t.dtype for t in tree_leaves(list(inputs)) if isinstance(t, torch.Tensor))
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.device.type == "mpsx"
        wanted = theirs.detach().to(dtype) if theirs.is_floating_point() else theirs
        torch.testing.assert_close(ours.detach().cpu(), wanted, equal_nan=True, **tolerance)
    for ours, theirs in zip(got, expected, strict=True):
        if not theirs.requires_grad:
            continue
        g = torch.randn(theirs.shape).to(ours.dtype)
        ours.backward(g.to("mpsx"), retain_graph=True)
        theirs.backward(g.double(), retain_graph=True)
    for ours, theirs in zip(tree_leaves(device), tree_leaves(exact), strict=True):
        if isinstance(theirs, torch.Tensor) and theirs.grad is not None:
            torch.testing.assert_close(ours.grad.cpu(), theirs.grad.to(ours.dtype), equal_nan=True, **tolerance)
