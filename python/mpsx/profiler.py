"""Profiling: counts and times of kernels and operators.

with mpsx.profiler.launch_log() as log:     # names in order: "kernel:softmax_f32", "vendor:aten::mm", …
    model(x)
with mpsx.profiler.profile() as profile:    # counts and times
    model(x)
print(profile.table())
with mpsx.profiler.trace("trace.json"):     # torch.profiler's, for Perfetto and chrome://tracing
    model(x)
print(mpsx.profiler.profile_kernel(torch.softmax, x, -1))   # memory accesses, on the simt driver
with mpsx.profiler.label("attention"):      # a label in Instruments, Xcode captures and GPU errors
    layer(x)
with mpsx.profiler.capture("step.gputrace"):  # a capture for Xcode's Metal debugger
    step()
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import _runtime

if TYPE_CHECKING:
    from .kernel_profile import KernelProfile


@dataclass(frozen=True)
class Row:
    """One kernel (route "native") or one operator that ran on the CPU ("vendor", "fallback")."""

    name: str
    route: str
    library: str  # for vendor rows, such as "oneDNN/MKL through ATen"
    calls: int
    seconds: float  # native and vendor rows are timed only inside profile()


def rows() -> list[Row]:
    """Return one row per kernel or operator that ran since process start or `reset()`, longest total time first."""
    found = [
        Row(row["name"], row["route"], row["library"], row["calls"], row["nanoseconds"] / 1e9)
        for row in _runtime.profile_rows()
    ]
    return sorted(found, key=lambda row: (row.seconds, row.calls), reverse=True)


def reset() -> None:
    """Reset the counts and times."""
    _runtime.reset_profile()


@dataclass
class Profile:
    """The result of a `profile()` block. It is complete when the block ends."""

    rows: list[Row] = field(default_factory=list)

    def calls(self, route: str) -> int:
        """Return the number of kernel launches or operator calls on a route."""
        return sum(row.calls for row in self.rows if row.route == route)

    def table(self, limit: int = 25) -> str:
        """Return the rows as text, longest total time first."""
        width = max([len(row.name) for row in self.rows[:limit]], default=4)
        lines = [f"{'name':<{width}}  {'route':<8}  {'calls':>8}  {'ms':>10}"]
        lines += [
            f"{row.name:<{width}}  {row.route:<8}  {row.calls:>8}  {row.seconds * 1e3:>10.3f}"
            for row in self.rows[:limit]
        ]
        return "\n".join(lines)


@contextlib.contextmanager
def profile() -> Iterator[Profile]:
    """Count and time everything that runs inside the block, in all threads. A block resets the counts, so do not nest
    blocks."""
    result = Profile()
    before = _runtime.profiling()
    _runtime.reset_profile()
    _runtime.set_profiling(True)
    try:
        yield result
    finally:
        _runtime.set_profiling(before)
        result.rows = rows()


@contextlib.contextmanager
def launch_log() -> Iterator[list[str]]:
    """Record the names of all launches and calls inside the block, in order. The list is filled when the block ends. Do
    not nest blocks."""
    names: list[str] = []
    _runtime.open_launch_log()
    try:
        yield names
    finally:
        names.extend(_runtime.close_launch_log())


@contextlib.contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Write a Chrome trace of the block, with operators and with kernels on the device's track."""
    import torch
    from torch.profiler import ProfilerActivity, profile, supported_activities

    activities = {ProfilerActivity.CPU, ProfilerActivity.PrivateUse1} & set(supported_activities())
    with profile(activities=activities) as result:
        yield
        torch.mpsx.synchronize()
    result.export_chrome_trace(os.fspath(path))


def profile_kernel(function: Callable, *args: object, **kwargs: object) -> KernelProfile:
    """Call a function and count what the threads of its kernels do, per line of Metal source: device-memory
    transactions, bank conflicts, barriers, divergence, and floating-point operations.

        print(mpsx.profiler.profile_kernel(torch.softmax, x, -1))
        profile = mpsx.profiler.profile_kernel(mpsx.compile_shader(source).axpy, y, x, 2.0)
        profile.launches[0].traffic, profile.json(), profile.annotated("program_source", source)

    Needs the simt driver (MPSX_DRIVER=simt). Counts assume a GPU with SIMD groups of 32 threads.
    """
    from . import kernel_profile

    return kernel_profile.profile_kernel(function, *args, **kwargs)


@contextlib.contextmanager
def kernel_profile() -> Iterator[KernelProfile]:
    """Profile the kernels inside a block, as `profile_kernel` does. The result is complete when the block ends. Do not
    nest blocks."""
    from . import kernel_profile as implementation

    with implementation.kernel_profile() as profile:
        yield profile


@contextlib.contextmanager
def label(name: str) -> Iterator[None]:
    """Label this thread's launches inside the block. Labels nest.

    On Metal, the label appears as a signpost interval in Instruments (subsystem "mpsx"), as a debug group in GPU
    captures, and in GPU error messages. Other drivers ignore it.
    """
    _runtime.begin_label(name)
    try:
        yield
    finally:
        _runtime.end_label()


@contextlib.contextmanager
def capture(path: str | os.PathLike[str]) -> Iterator[None]:
    """Capture the GPU's work inside the block in a new .gputrace file for Xcode's Metal debugger.

    Needs the Metal driver, with METAL_CAPTURE_ENABLED=1 set in the process's environment.
    """
    _runtime.start_capture(os.path.abspath(os.fspath(path)))
    try:
        yield
    finally:
        _runtime.stop_capture()
