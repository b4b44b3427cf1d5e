"""The module `torch.mpsx`: the functions of `torch.mps`, plus the functions of `torch.cuda` that apply to mpsx."""

from __future__ import annotations as _annotations

import os as _os
import sys as _sys
import time as _time
from dataclasses import dataclass as _dataclass
from types import ModuleType as _ModuleType

import torch as _torch
from torch import OutOfMemoryError  # noqa: F401

from .. import _runtime
from . import memory, profiler, random, streams
from .memory import *  # noqa: F403
from .memory import recommended_max_memory
from .random import *  # noqa: F403
from .streams import *  # noqa: F403

# Always true: torch.utils.checkpoint saves the random state only for initialized devices, and the generator works even
# before the driver starts.
_initialized = True


# Inductor reads these attributes from the device's module when it first compiles a graph.
_INDUCTOR = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")
_SHADERS = ("compile_shader", "load_metallib")  # mpsx imports them on first use


def __getattr__(name: str) -> object:
    if name in _INDUCTOR:
        from .. import inductor

        return getattr(inductor, name)
    if name in _SHADERS:
        return getattr(_sys.modules["mpsx"], name)
    raise AttributeError(f"module 'torch.mpsx' has no attribute {name!r}")


def _convolution_format(image: _torch.Tensor, weight: _torch.Tensor, backend: object) -> _torch.memory_format:
    """Return the memory format of a convolution's output. Must match result_format() in src/ops/conv/conv.cpp."""
    from torch._prims_common import suggest_memory_format

    if not image.is_mpsx:
        return _torch._C._conv_determine_backend_memory_format(image, weight, backend)
    if image.dim() in (4, 5):
        for tensor in (image, weight):
            if suggest_memory_format(tensor) != _torch.contiguous_format:
                return suggest_memory_format(tensor)
    return _torch.contiguous_format


def _has_metal_type(dtype: _torch.dtype) -> bool:
    """Return whether Inductor's Metal code generation supports the dtype."""
    from torch._inductor.codegen.mps import DTYPE_TO_METAL

    return dtype.is_complex or dtype in DTYPE_TO_METAL


def register() -> None:
    """Install this module as `torch.mpsx`, and add `Tensor.mpsx()`, `Module.mpsx()`, `is_mpsx`, and similar
    attributes."""
    _torch._register_device_module("mpsx", _sys.modules[__name__])
    _torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    _torch.Tensor.is_mpsx = property(lambda tensor: tensor.device.type == _runtime.device_type())
    # Make the submodules importable, like torch.mps.event and torch.cuda.streams.
    for name, module in _MODULES.items():
        _sys.modules[f"torch.mpsx.{name}"] = module
    backend = _ModuleType("torch.backends.mpsx", "Counterpart of torch.backends.mps for mpsx.")
    backend.is_built = backend.is_available = is_available
    backend.is_macos_or_newer = lambda major, minor: True
    backend.is_macos13_or_newer = lambda minor=0: True
    backend.get_name = get_device_name
    backend.get_core_count = lambda: _runtime.driver()["cores"]
    _torch.backends.mpsx = _sys.modules[backend.__name__] = backend


event = streams
_MODULES = {"event": event, "memory": memory, "profiler": profiler, "random": random, "streams": streams}
_last_utilization = (_time.monotonic(), _time.process_time())  # wall and CPU time of the previous `utilization` call


def __dir__() -> list[str]:
    return [*(name for name in globals() if not name.startswith("_")), *_SHADERS]


def is_available() -> bool:
    """Return True: without a GPU, kernels run on the CPU."""
    return True


def is_mps() -> bool:
    """Return whether the device is currently named mps. See `mpsx.as_mps`."""
    return _runtime.device_type() == "mps"


def ipc_collect() -> None:
    """Do nothing. Provided for code written for CUDA."""


def can_device_access_peer(device: object, peer_device: object) -> bool:
    """Return False, because there is only one device."""
    return False


def is_current_stream_capturing() -> bool:
    """Return False, because mpsx cannot capture a stream into a graph."""
    return False


def get_arch_list() -> list[str]:
    """Return an empty list. Provided for code written for CUDA."""
    return []


def is_initialized() -> bool:
    """Return whether the driver has started."""
    return _runtime.driver_started()


def init() -> None:
    """Start the driver unless it is already running."""
    _runtime.driver()


_lazy_init = init


def _is_in_bad_fork() -> bool:
    try:
        _runtime.restart_check()
    except RuntimeError:
        return True
    return False


def device_count() -> int:
    """Return the number of device indices: 1, or the number of processes that share the device.

    torchrun sets LOCAL_WORLD_SIZE to the number of processes. If it is not set, use the size of the largest
    torch.distributed group created so far. All indices refer to the same device.
    """
    return _runtime.device_count()


def current_device() -> int:
    """Return the index of the current device, always 0."""
    return 0


def set_device(device: object) -> None:
    """Check the index. Nothing else changes, because there is only one device."""
    _check_device(device)


def _check_device(which: object) -> None:
    index = which if isinstance(which, int) else _torch.device("mpsx" if which is None else which).index
    if index not in (None, -1) and not _runtime.is_device_index(index):
        raise ValueError(f"mpsx: expected device index 0, got {index}")


class device:
    """A context manager that selects the current device. It only checks the index, because there is only one device."""

    def __init__(self, device: object) -> None:
        _check_device(device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class device_of(device):
    """A context manager that selects the device of an mpsx tensor. It ignores other tensors."""

    def __init__(self, tensor: _torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.is_mpsx else None)


def synchronize(device: object = None) -> None:
    """Wait for all submitted work, and raise any error that the device reported."""
    _check_device(device)
    _runtime.synchronize()


@_dataclass(frozen=True)
class DeviceProperties:
    """The result of `get_device_properties`."""

    name: str
    driver: str
    isa: str
    kernel_compiler: str
    total_memory: int
    unified_memory: bool = True
    is_integrated: bool = True  # as in torch.cuda


def get_device_properties(device: object = None) -> DeviceProperties:
    """Return the device's name, driver, instruction set, and memory size."""
    _check_device(device)
    info = _runtime.driver()
    return DeviceProperties(info["device"], info["name"], info["isa"], info["compiler"], recommended_max_memory())


def get_device_name(device: object = None) -> str:
    """Return the device's name."""
    return get_device_properties(device).name


def get_device_capability(device: object = None) -> tuple[int, int]:
    """Return (0, 0). Provided for code written for CUDA."""
    _check_device(device)
    return (0, 0)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return True. bfloat16 kernels compute in float32."""
    return True


def is_tf32_supported() -> bool:
    """Return False. float32 matmul never uses TF32."""
    return False


def utilization(device: object = None) -> int:
    """Return the percentage of time that the device was busy since the previous call, or since process start.

    On the host and simt drivers, this is the process's CPU utilization across all cores. Other drivers have no counter.
    """
    global _last_utilization
    _check_device(device)
    driver = _runtime.driver()["name"]
    if driver not in ("host", "simt"):
        raise NotImplementedError(f"utilization: the {driver} driver cannot measure GPU utilization")
    before, _last_utilization = _last_utilization, (_time.monotonic(), _time.process_time())
    elapsed, busy = (now - then for now, then in zip(_last_utilization, before, strict=True))
    return min(100, round(100 * busy / max(elapsed * (_os.cpu_count() or 1), 1e-9)))


def get_amp_supported_dtype() -> list[_torch.dtype]:
    """Return the dtypes that `torch.autocast("mpsx", dtype=…)` accepts."""
    return [_torch.float16, _torch.bfloat16]


__all__ = __dir__()  # noqa: PLE0605 - lists what `help` shows
