"""Describe errors in the results of tests/simt/kernel_cases. An empty string means that the results agree."""

from __future__ import annotations

import torch


def difference(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> str:
    """Compare two lists of results. Return torch.testing's message, or "" if they agree."""
    try:
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b.to(a.dtype), equal_nan=True)
    except (AssertionError, ValueError) as e:
        return str(e)
    return ""


def excess(ours: list[torch.Tensor], exact: list[torch.Tensor], bounds: list[torch.Tensor]) -> str:
    """Describe by how much the results exceed their error bounds, or return "" if they do not."""
    worst = max(float(((a.double() - b).abs() / bound).max()) for a, b, bound in zip(ours, exact, bounds, strict=True))
    return "" if worst <= 1 else f"{worst:.2f} times the error that rounding explains"
