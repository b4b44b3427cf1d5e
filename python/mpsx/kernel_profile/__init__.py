"""Profile Metal kernels on the simt driver, which counts the work of each thread. See mpsx.profiler.profile_kernel."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .. import _runtime
from . import report
from .launch import Launch, launch_of

MAX_TABLES = 10  # maximum number of launches for which $MPSX_SIMT_PROFILE prints a table
_process_launches: list[Launch] | None = None  # all launches so far if $MPSX_SIMT_PROFILE is set


@dataclass
class KernelProfile:
    """The launches of a profiled call or block, in order. They become available when the call or block ends."""

    launches: list[Launch] = field(default_factory=list)

    def text(self) -> str:
        """Return all launches as text."""
        return "\n\n".join(map(report.text, self.launches)) or "no kernel was launched"

    def json(self) -> str:
        """Return all launches as a JSON list."""
        return json.dumps([report.as_dict(launch) for launch in self.launches], indent=1)

    def annotated(self, file: str, source: str | None = None) -> str:
        """Return a file's source annotated with counts per line, once for each launch that executed part of the
        file."""
        if source is None:
            from ..shader import kernel_library

            beside = kernel_library.SOURCES.parent / file
            source = (beside if beside.exists() else Path(file)).read_text()
        return "\n".join(f"{launch.kernel}\n{report.annotated(launch, file, source)}" for launch in self.launches
                         if any(file in (line.position[0], line.inside[0]) for line in launch.lines))  # fmt: skip

    def __str__(self) -> str:
        return self.text()


def start() -> None:
    """Start profiling."""
    from . import build

    _runtime.set_kernel_profile(build.find)


def take() -> list[Launch]:
    """Return the launches since the previous call."""
    from .build import facts_of

    taken, facts = [], {}
    for kernel, counts in _runtime.take_profiled_launches():
        library = json.loads(counts)["library"]
        if library not in facts:
            facts[library] = facts_of(library)
        taken.append(launch_of(kernel, counts, facts[library]))
    return taken


@contextlib.contextmanager
def kernel_profile() -> Iterator[KernelProfile]:
    """Profile a block. See mpsx.profiler.kernel_profile."""
    name = _runtime.driver()["name"]
    if name != "simt":
        raise RuntimeError(f"kernel profiling needs the simt driver (MPSX_DRIVER=simt), got {name}")
    result, before = KernelProfile(), take()
    start()
    try:
        yield result
    finally:
        result.launches = take()
        if _process_launches is None:
            _runtime.set_kernel_profile(None)
        else:
            _process_launches.extend([*before, *result.launches])


def profile_kernel(function: Callable, *args: object, **kwargs: object) -> KernelProfile:
    """Profile a call. See mpsx.profiler.profile_kernel."""
    with kernel_profile() as profile:
        function(*args, **kwargs)
    return profile


def start_process_profile(where: str) -> None:
    """Profile the whole process. When it exits, print the launches or write them to a file."""
    global _process_launches
    import atexit

    _process_launches = []
    start()

    def finish() -> None:
        profile = KernelProfile([*_process_launches, *take()])
        if where not in ("1", "true"):
            Path(where).write_text(profile.json())
            return
        by_cost = sorted(profile.launches, key=lambda launch: -launch.read.moved - launch.written.moved)
        shown = set(map(id, by_cost[:MAX_TABLES]))
        for launch in profile.launches:
            print((report.text if id(launch) in shown else report.summary)(launch), file=sys.stderr)

    atexit.register(finish)


def configure(environment: os._Environ[str]) -> None:
    """Profile the process if $MPSX_SIMT_PROFILE is set."""
    where = environment.get("MPSX_SIMT_PROFILE", "")
    if where not in ("", "0"):
        if environment.get("MPSX_DRIVER") != "simt":
            raise RuntimeError("MPSX_SIMT_PROFILE needs MPSX_DRIVER=simt")
        start_process_profile(where)
