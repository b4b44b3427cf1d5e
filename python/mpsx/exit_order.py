"""No abort when the process ends.

Autograd runs the backward of a device on a thread of its own, and after the last backward that thread may still be
dropping Python objects. If the interpreter is gone by then, the process aborts with "terminate called without an
active exception" (pytorch issue 190489). Work of one device is done in order, so one more, tiny, backward waits for it.
"""

from __future__ import annotations

import atexit

import torch

from . import _runtime

_kept: list[torch.Tensor] = []  # what the tiny backward uses must not be dropped by that thread in its turn


def _settle() -> None:
    if not _runtime.driver_started():
        return
    _kept.append(torch.empty((), device="mpsx", requires_grad=True))
    _kept.append(torch.empty((), device="mpsx"))
    _kept[0].backward(_kept[1])


def register() -> None:
    """Arranges it for the end of this process."""
    atexit.register(_settle)
