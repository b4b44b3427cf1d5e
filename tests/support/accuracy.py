"""How near a result is to float64's, beside the CPU's of the same types."""

from __future__ import annotations

import torch


def assert_as_accurate(got: torch.Tensor, cpu: torch.Tensor, exact: torch.Tensor, times: float = 2.0) -> None:
    """The error, by its mean square, is at most `times` the CPU's; rounding once to the type is no error. No element is
    off by more than a few of the CPU's largest. Of a few elements, whose errors are luck, torch.testing's bounds or
    four times as much."""
    assert got.dtype == cpu.dtype
    assert got.shape == cpu.shape == exact.shape
    if not got.numel():
        return
    if got.numel() < 32:
        if torch.allclose(got.cpu().double(), exact, rtol=4 * torch.finfo(got.dtype).eps, atol=1e-5):
            return
        times *= 4
    ours, theirs = got.cpu().double() - exact, cpu.double() - exact
    unit = torch.finfo(got.dtype).eps / 2 * exact.abs()
    assert bool(torch.isfinite(ours).all()), "not finite"
    for name, factor, size in (
        ("root mean square", times, lambda e: e.square().mean().sqrt()),
        ("largest", 2 * times, lambda e: e.abs().max()),
    ):
        bound = factor * size(theirs) + size(unit) + torch.finfo(got.dtype).tiny
        assert size(ours) <= bound, f"{name} error {size(ours):.3g}, the CPU's {size(theirs):.3g}, of {bound:.3g}"
