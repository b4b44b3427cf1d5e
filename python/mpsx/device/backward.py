"""Run the backward pass on the calling thread if kernels run on the CPU.

PyTorch's autograd engine has one thread per device, except for the CPU. If mpsx's kernels run on the CPU, that thread
opens its own parallel regions, and libgomp creates a second worker pool for it. With more workers than cores, every
parallel region in the process must wake its workers from sleep.

`torch.autograd.set_multithreading_enabled(False)` keeps the engine on the calling thread. This flag is thread-local,
and users may set it themselves, so change it only while `backward` or `grad` runs, then restore it.
`src/backend/engine.cpp` does the same for backward passes started from C++.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _runtime


class CallingThreadEngine(torch._C._ImperativeEngine):
    """The engine behind `torch.autograd.backward` and `grad`."""

    def run_backward(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Compute gradients. Takes the same arguments as PyTorch's engine."""
        if not (_runtime.kernels_run_on_caller() and torch._C._is_multithreading_enabled()):
            return super().run_backward(*args, **kwargs)
        torch._C._set_multithreading_enabled(False)
        try:
            return super().run_backward(*args, **kwargs)
        finally:
            torch._C._set_multithreading_enabled(True)


def register() -> None:
    """Replace the engine that `torch.autograd` calls."""
    torch.autograd.Variable._execution_engine = CallingThreadEngine()
