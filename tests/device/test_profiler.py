"""Kernel and operator times in mpsx.profiler and torch.autograd.profiler."""

from __future__ import annotations

import torch

import mpsx


def work() -> torch.Tensor:
    x = torch.randn(300, 300, device="mpsx")
    return torch.softmax(x * 2, 1).sum()


def test_kernels_have_times() -> None:
    work()
    with mpsx.profiler.profile() as profile:
        work()
        work()
    row = next(row for row in profile.rows if row.name.startswith("softmax"))
    assert (row.route, row.calls) == ("native", 2) and 0 < row.seconds < 10
    assert row.name in profile.table()
    with mpsx.profiler.profile() as nothing:
        pass
    assert not any(row.calls for row in nothing.rows)


def test_launches_outside_profile_are_not_timed() -> None:
    mpsx.profiler.reset()
    work()
    assert {row.seconds for row in mpsx.profiler.rows() if row.route == "native"} == {0.0}


def test_operators_have_times_in_autograd_profiler() -> None:
    with torch.autograd.profiler.profile(use_device="mpsx", use_kineto=False) as profile:
        work()
    times = {event.key: event.device_time_total for event in profile.key_averages()}
    assert times["aten::softmax"] > 0 and times["aten::sum"] > 0
    assert "MPSX" in profile.key_averages().table()
