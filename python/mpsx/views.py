"""The same memory seen from both sides: device memory has a CPU address, so neither direction copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import numpy as np


def cpu_view(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over the memory of `tensor`, which is on mpsx: writes to either are seen by both.

    Unlike `tensor.cpu()`, which copies as PyTorch promises. Waits for the device's work first; work that is queued
    later needs a `torch.mpsx.synchronize()` before its results are read here. Outside autograd.
    """
    return torch.ops.mpsx._cpu_view(tensor.detach())


def device_view(tensor: torch.Tensor) -> torch.Tensor:
    """An mpsx tensor over the memory of `tensor`, which is on the CPU. The opposite of `cpu_view`.

    On a driver that cannot address the CPU's memory (see `mpsx.driver()["unified_addressing"]`) this is a copy.
    """
    return torch.ops.mpsx._device_view(tensor.detach())


def numpy_view(tensor: torch.Tensor) -> np.ndarray:
    """A NumPy array over the memory of `tensor`, which is on mpsx (`Tensor.numpy()` refuses any device but the CPU)."""
    return cpu_view(tensor).resolve_conj().resolve_neg().numpy()
