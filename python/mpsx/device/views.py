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

    On a driver that cannot address the CPU's memory (see `mpsx.driver()["adopts_memory"]`) this is a copy.
    """
    return torch.ops.mpsx._device_view(tensor.detach())


def numpy_view(tensor: torch.Tensor) -> np.ndarray:
    """A NumPy array over the memory of `tensor`, which is on mpsx (`Tensor.numpy()` refuses any device but the CPU)."""
    return cpu_view(tensor).resolve_conj().resolve_neg().numpy()


def from_mps(tensor: torch.Tensor) -> torch.Tensor:
    """An mpsx tensor over the memory of `tensor`, which is on PyTorch's own device mps. Nothing is copied.

    Waits for the work of mps. From there on each device has a queue of its own: after a write through one of the two
    tensors, `torch.mps.synchronize()` or `torch.mpsx.synchronize()` comes before a read through the other. Outside
    autograd. Needs the Metal driver.
    """
    return torch.ops.mpsx._from_mps(tensor.detach())


def to_mps(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of PyTorch's own mps over the memory of `tensor`, which is on mpsx: the opposite of `from_mps`."""
    return torch.ops.mpsx._to_mps(tensor.detach())
