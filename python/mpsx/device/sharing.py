"""Share memory with other processes (torch.multiprocessing) and other libraries (DLPack)."""

from __future__ import annotations

import functools
from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing import reductions

from .. import _runtime
from .views import cpu_view, device_view


def _is_mpsx_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == _runtime.device_type()


def _rebuild(kind: type, cpu: torch.Tensor, sizes: tuple, strides: tuple, offset: int, needs_grad: bool) -> object:
    tensor = device_view(cpu).as_strided(sizes, strides, offset)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=needs_grad)
    return tensor.requires_grad_(needs_grad)


def _reduce(tensor: torch.Tensor) -> tuple:
    """Move a tensor's storage to shared memory, and pickle the tensor as a CPU tensor."""
    if not _is_mpsx_tensor(tensor) or tensor.layout != torch.strided:
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        return reductions.reduce_tensor(tensor)  # raises PyTorch's error
    driver = _runtime.driver()
    if not driver["adopts_memory"]:
        raise RuntimeError(f"mpsx: the {driver['name']} driver cannot share tensors with other processes, because its "
                           "tensors are not in the process's memory; send tensor.cpu()")  # fmt: skip
    storage = tensor.detach().as_strided((tensor.untyped_storage().nbytes() // tensor.itemsize,), (1,), 0)
    cpu = cpu_view(storage)
    if not cpu.is_shared():
        cpu.share_memory_()
        torch.ops.mpsx._follow_twin(storage)
    layout = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.requires_grad)
    return _rebuild, (type(tensor), cpu, *layout)


def register() -> None:
    """Install the reducers for pickle and the DLPack functions."""
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce)

    dlpack_device, export = torch.Tensor.__dlpack_device__, torch.Tensor.__dlpack__

    @functools.wraps(dlpack_device)
    def __dlpack_device__(self: torch.Tensor) -> object:
        return dlpack_device(cpu_view(self) if _is_mpsx_tensor(self) else self)

    @functools.wraps(export)
    def __dlpack__(self: torch.Tensor, **options: object) -> object:
        if _is_mpsx_tensor(self) and not self.requires_grad:  # in all other cases, PyTorch raises its own error
            return export(cpu_view(self), **options)
        return export(self, **options)

    torch.Tensor.__dlpack_device__, torch.Tensor.__dlpack__ = __dlpack_device__, __dlpack__
    import_ = torch.utils.dlpack.from_dlpack

    @functools.wraps(import_)
    def from_dlpack(ext_tensor: object, *, device: object = None, copy: bool | None = None) -> torch.Tensor:
        stays = _is_mpsx_tensor(ext_tensor) and (device is None or torch.device(device).type == _runtime.device_type())
        if stays:
            return ext_tensor.detach().clone() if copy else ext_tensor.detach()
        return import_(ext_tensor, device=device, copy=copy)

    torch.utils.dlpack.from_dlpack = torch.from_dlpack = from_dlpack
