"""Views that share memory between mpsx and the CPU or mps. Device memory has a CPU address, so nothing is copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import numpy as np


def cpu_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor that shares the memory of an mpsx tensor. Use `tensor.cpu()` to copy instead.

    Waits for submitted work first. Call `torch.mpsx.synchronize()` before reading results of work submitted later. Not
    differentiable.
    """
    return torch.ops.mpsx._cpu_view(tensor.detach())


def device_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return an mpsx tensor that shares the memory of a CPU tensor. The inverse of `cpu_view`.

    Copies the data if the driver cannot use the process's memory (see `mpsx.driver()["adopts_memory"]`).
    """
    return torch.ops.mpsx._device_view(tensor.detach())


def numpy_view(tensor: torch.Tensor) -> np.ndarray:
    """Return a NumPy array that shares the memory of an mpsx tensor. `Tensor.numpy()` only works for CPU tensors."""
    return cpu_view(tensor).resolve_conj().resolve_neg().numpy()


def from_mps(tensor: torch.Tensor) -> torch.Tensor:
    """Return an mpsx tensor that shares the memory of a tensor on PyTorch's mps device. Needs the Metal driver.

    Waits for mps first. Each device has its own command queue. After writing to one of the two tensors, call
    `synchronize()` in `torch.mps` or `torch.mpsx` before reading the other one. Not differentiable.
    """
    return torch.ops.mpsx._from_mps(tensor.detach())


def to_mps(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on PyTorch's mps device that shares the memory of an mpsx tensor. The inverse of `from_mps`."""
    return torch.ops.mpsx._to_mps(tensor.detach())
