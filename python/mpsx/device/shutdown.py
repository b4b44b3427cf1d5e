"""Wait for autograd's device thread at exit.

Autograd runs a device's backward pass on a separate thread. After the pass, that thread releases the Python objects
that it copied from the caller's context. If the interpreter has already shut down by then, the process aborts with
"terminate called without an active exception", as with gloo's threads (src/backend/gloo_calls.h). The thread processes
its work in order. So run one more tiny backward pass, and wait until the thread has released that pass's context
variable.
"""

from __future__ import annotations

import atexit
import contextvars
import time
import weakref

import torch

from .. import _runtime
from ..shader import kernel_library

_TIMEOUT = 2.0  # seconds


class _Marker:
    """An object that supports weak references."""


_marker: contextvars.ContextVar[_Marker] = contextvars.ContextVar("mpsx_exit_marker")


def _tiny_backward(marker: _Marker) -> None:
    _marker.set(marker)
    leaf = torch.empty(0, device="mpsx", requires_grad=True)  # launches no kernel
    # Don't call leaf.backward(gradient): it imports torch's symbolic shapes and sympy, which takes half a second.
    engine = torch.autograd.Variable._execution_engine
    engine.run_backward((leaf,), (torch.empty(0, device="mpsx"),), False, False, (), allow_unreachable=True,
                        accumulate_grad=True)  # fmt: skip


def _wait_for_autograd() -> None:
    if not _runtime.driver_started() or kernel_library.shaders_only:  # no backward pass ran
        return
    if _runtime.kernels_run_on_caller():  # backward passes run on the calling thread
        return
    marker = _Marker()
    released = weakref.ref(marker)
    contextvars.copy_context().run(_tiny_backward, marker)
    del marker
    deadline = time.monotonic() + _TIMEOUT
    while released() is not None and time.monotonic() < deadline:
        time.sleep(0.0005)  # releases the GIL


def register() -> None:
    """Register _wait_for_autograd to run at interpreter exit."""
    atexit.register(_wait_for_autograd)
