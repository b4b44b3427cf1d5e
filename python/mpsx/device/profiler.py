"""`torch.mpsx.profiler`, which mirrors `torch.mps.profiler`. For counts and times, use `mpsx.profiler`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from .. import _runtime
from .. import profiler as _profiler

__all__ = ["is_capturing_metal", "is_metal_capture_enabled", "metal_capture", "profile", "start", "stop"]

_MODES = {"interval", "event"}
_capturing = False


def start(mode: str = "interval", wait_until_completed: bool = False) -> None:
    """Start timing kernels. `mpsx.profiler.rows()` returns the times. Both modes behave alike."""
    unknown = set(mode.split(",")) - _MODES
    if unknown:
        raise ValueError(f"start: expected the mode 'interval', 'event' or 'interval,event', got {mode!r}")
    _runtime.set_profiling(True)


def stop() -> None:
    """Stop timing kernels."""
    _runtime.set_profiling(False)


@contextlib.contextmanager
def profile(mode: str = "interval", wait_until_completed: bool = False) -> Iterator[None]:
    """Time the kernels inside a with block."""
    start(mode, wait_until_completed)
    try:
        yield
    finally:
        stop()


def is_metal_capture_enabled() -> bool:
    """Return whether `metal_capture` works. It needs the Metal driver and METAL_CAPTURE_ENABLED=1 in the
    environment."""
    return _runtime.driver()["name"] == "metal" and os.environ.get("METAL_CAPTURE_ENABLED") == "1"


def is_capturing_metal() -> bool:
    """Return whether `metal_capture` is active."""
    return _capturing


@contextlib.contextmanager
def metal_capture(fname: str) -> Iterator[None]:
    """Record the GPU's work inside a with block, in a .gputrace file for Xcode."""
    global _capturing
    with _profiler.capture(fname):
        _capturing = True
        try:
            yield
        finally:
            _capturing = False
