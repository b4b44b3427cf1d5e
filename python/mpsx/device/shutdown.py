"""No abort when the process ends.

Autograd runs the backward of a device on a thread of its own, and when that is done the thread still drops what the
backward took along from the caller: its context variables, Python objects. If the interpreter is gone by then, the
process aborts with "terminate called without an active exception" (pytorch issue 190489). Work of one device is done
in order, so one more, tiny, backward waits for all earlier ones; and a context variable tells when it is dropped too.
"""

from __future__ import annotations

import atexit
import contextvars
import time
import weakref

import torch

from .. import _runtime
from ..shader import kernel_library

_PATIENCE = 2.0  # seconds


class _Marker:
    """Something that a weak reference can watch."""


_marker: contextvars.ContextVar[_Marker] = contextvars.ContextVar("mpsx_exit_marker")


def _tiny_backward(marker: _Marker) -> None:
    _marker.set(marker)
    leaf = torch.empty(0, device="mpsx", requires_grad=True)  # for which no kernel runs
    # Not leaf.backward(gradient), which imports torch's symbolic shapes, and with them sympy: half a second.
    engine = torch.autograd.Variable._execution_engine
    engine.run_backward((leaf,), (torch.empty(0, device="mpsx"),), False, False, (), allow_unreachable=True,
                        accumulate_grad=True)  # fmt: skip


def _settle() -> None:
    if not _runtime.driver_started() or kernel_library.shaders_only:  # where there was no backward
        return
    if _runtime.kernels_run_on_caller():  # no backward runs on a thread of its own
        return
    marker = _Marker()
    dropped = weakref.ref(marker)
    contextvars.copy_context().run(_tiny_backward, marker)
    del marker
    deadline = time.monotonic() + _PATIENCE
    while dropped() is not None and time.monotonic() < deadline:
        time.sleep(0.0005)  # gives the interpreter's lock to that thread


def register() -> None:
    """Arranges it for the end of this process."""
    atexit.register(_settle)
