"""Run the backward pass on the calling thread where kernels run on the CPU.

PyTorch's engine runs the backward of every device but the CPU on a thread of that device. Where the kernels themselves
run on the CPU, a second thread that opens parallel regions makes libgomp keep a second pool of workers, and once there
are more workers than cores every parallel region in the process has to wake its workers from sleep.

The engine stays on the calling thread where `torch.autograd.set_multithreading_enabled(False)` holds. That setting is
the user's and each thread has its own, so it is changed only while `backward` or `grad` runs, and then restored.
`src/backend/engine.cpp` does the same for backward passes that C++ code starts.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _runtime


class CallingThreadEngine(torch._C._ImperativeEngine):
    """The engine behind `torch.autograd.backward` and `grad`."""

    def run_backward(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Computes gradients; the arguments are those of PyTorch's own engine."""
        if not (_runtime.kernels_run_on_caller() and torch._C._is_multithreading_enabled()):
            return super().run_backward(*args, **kwargs)
        torch._C._set_multithreading_enabled(False)
        try:
            return super().run_backward(*args, **kwargs)
        finally:
            torch._C._set_multithreading_enabled(True)


def register() -> None:
    """Replaces the engine that `torch.autograd` calls."""
    torch.autograd.Variable._execution_engine = CallingThreadEngine()
