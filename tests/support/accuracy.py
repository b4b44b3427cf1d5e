"""Compare errors relative to float64 with the CPU's errors in the same dtype."""

from __future__ import annotations

import torch


def assert_as_accurate(got: torch.Tensor, cpu: torch.Tensor, exact: torch.Tensor, times: float = 2.0) -> None:
    """Require the RMS error to be at most `times` the CPU's, plus one rounding to the dtype. The largest error may be
    twice as large.

    With fewer than 32 elements, errors vary too much. In that case, also accept torch.testing's tolerance or four times
    the bound.
    """
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
    for name, factor, norm in (
        ("root mean square", times, lambda e: e.square().mean().sqrt()),
        ("largest", 2 * times, lambda e: e.abs().max()),
    ):
        bound = factor * norm(theirs) + norm(unit) + torch.finfo(got.dtype).tiny
        assert norm(ours) <= bound, f"{name} error {norm(ours):.3g}, the CPU's {norm(theirs):.3g}, bound {bound:.3g}"
