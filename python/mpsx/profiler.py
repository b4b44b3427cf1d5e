"""Counts and times of the work that ran on the device.

with mpsx.profiler.launch_log() as log:     # names, in order: "kernel:softmax_f32", "vendor:aten::mm", …
    model(x)
with mpsx.profiler.profile() as profile:    # counts and times
    model(x)
print(profile.table())
with mpsx.profiler.trace("trace.json"):     # torch.profiler's, for Perfetto and chrome://tracing
    model(x)
print(mpsx.profiler.profile_kernel(torch.softmax, x, -1))   # on the simt driver: what its threads do with memory
with mpsx.profiler.label("attention"):      # a name, in Instruments, in Xcode's captures and in errors of the GPU
    layer(x)
with mpsx.profiler.capture("step.gputrace"):  # a record for Xcode's Metal debugger
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
    library: str  # vendor: what it is, such as "oneDNN/MKL through ATen"
    calls: int
    seconds: float  # of native and vendor rows only while a profile() was open


def rows() -> list[Row]:
    """Everything that ran since the start or the last `reset()`, the longest first."""
    found = [
        Row(row["name"], row["route"], row["library"], row["calls"], row["nanoseconds"] / 1e9)
        for row in _runtime.profile_rows()
    ]
    return sorted(found, key=lambda row: (row.seconds, row.calls), reverse=True)


def reset() -> None:
    """Sets counts and times to zero."""
    _runtime.reset_profile()


@dataclass
class Profile:
    """The work of a `profile()` block; filled in when it ends."""

    rows: list[Row] = field(default_factory=list)

    def calls(self, route: str) -> int:
        """How many launches or calls took `route`."""
        return sum(row.calls for row in self.rows if row.route == route)

    def table(self, limit: int = 25) -> str:
        """The rows as text, the longest first."""
        width = max([len(row.name) for row in self.rows[:limit]], default=4)
        lines = [f"{'name':<{width}}  {'route':<8}  {'calls':>8}  {'ms':>10}"]
        lines += [
            f"{row.name:<{width}}  {row.route:<8}  {row.calls:>8}  {row.seconds * 1e3:>10.3f}"
            for row in self.rows[:limit]
        ]
        return "\n".join(lines)


@contextlib.contextmanager
def profile() -> Iterator[Profile]:
    """Counts and times what runs inside the block, in every thread. Blocks do not nest: each resets the counts."""
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
    """The names of what ran inside the block, in order; the list is filled in when it ends. Blocks do not nest."""
    names: list[str] = []
    _runtime.open_launch_log()
    try:
        yield names
    finally:
        names.extend(_runtime.close_launch_log())


@contextlib.contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Writes what runs inside the block to a Chrome trace: operators, and kernels on the device's track."""
    import torch
    from torch.profiler import ProfilerActivity, profile, supported_activities

    wanted = {ProfilerActivity.CPU, ProfilerActivity.PrivateUse1} & set(supported_activities())
    with profile(activities=wanted) as seen:
        yield
        torch.mpsx.synchronize()
    seen.export_chrome_trace(os.fspath(path))


def profile_kernel(function: Callable, *args: object, **kwargs: object) -> KernelProfile:
    """Calls a function, and counts what the threads of the kernels that it launches do: transactions with device
    memory, bank conflicts, barriers, divergence, floating-point operations, of each line of the Metal source.

        print(mpsx.profiler.profile_kernel(torch.softmax, x, -1))
        profile = mpsx.profiler.profile_kernel(mpsx.compile_shader(source).axpy, y, x, 2.0)
        profile.launches[0].traffic, profile.json(), profile.annotated("program_source", source)

    Needs the simt driver (MPSX_DRIVER=simt), which runs every thread; counts are those of a GPU with SIMD groups of 32.
    """
    from . import kernel_profile

    return kernel_profile.profile_kernel(function, *args, **kwargs)


@contextlib.contextmanager
def kernel_profile() -> Iterator[KernelProfile]:
    """`profile_kernel` of what runs inside the block; filled in when it ends. Blocks do not nest."""
    from . import kernel_profile as counting

    with counting.kernel_profile() as profile:
        yield profile


@contextlib.contextmanager
def label(name: str) -> Iterator[None]:
    """Names what this thread dispatches inside the block; labels nest.

    On Metal the name is a signpost interval in Instruments (subsystem "mpsx"), a debug group in GPU captures, and part
    of the message when the GPU fails. Other drivers ignore it.
    """
    _runtime.begin_label(name)
    try:
        yield
    finally:
        _runtime.end_label()


@contextlib.contextmanager
def capture(path: str | os.PathLike[str]) -> Iterator[None]:
    """Records the GPU's work inside the block to a .gputrace file, which must not exist, for Xcode's Metal debugger.

    Needs the Metal driver, and METAL_CAPTURE_ENABLED=1 in the environment of the process.
    """
    _runtime.start_capture(os.path.abspath(os.fspath(path)))
    try:
        yield
    finally:
        _runtime.stop_capture()
