"""The module that torch shows as `torch.mpsx`."""

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

# torch.utils.checkpoint saves and restores the random state of devices that say so; the generator needs no driver.
_initialized = True


# Inductor asks a device's module for these, once, when it first compiles something.
_INDUCTOR = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")


def __getattr__(name: str) -> object:
    if name in _INDUCTOR:
        from .. import inductor

        return getattr(inductor, name)
    if name == "compile_shader":
        from ..shader.library import compile_shader

        return compile_shader
    raise AttributeError(f"module 'torch.mpsx' has no attribute {name!r}")


def _convolution_format(image: _torch.Tensor, weight: _torch.Tensor, backend: object) -> _torch.memory_format:
    """The memory format of a convolution's result: result_format() of src/ops/conv/conv.cpp. Others: PyTorch's."""
    from torch._prims_common import suggest_memory_format

    if not image.is_mpsx:
        return _torch._C._conv_determine_backend_memory_format(image, weight, backend)
    if image.dim() in (4, 5):
        for tensor in (image, weight):
            if suggest_memory_format(tensor) != _torch.contiguous_format:
                return suggest_memory_format(tensor)
    return _torch.contiguous_format


def _has_metal_type(dtype: _torch.dtype) -> bool:
    """Whether Inductor's generator for Metal knows the type."""
    from torch._inductor.codegen.mps import DTYPE_TO_METAL

    return dtype.is_complex or dtype in DTYPE_TO_METAL


def register() -> None:
    """Makes this module `torch.mpsx`, and adds `Tensor.mpsx()`, `Module.mpsx()`, `is_mpsx` and the like."""
    _torch._register_device_module("mpsx", _sys.modules[__name__])
    _torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    _torch.Tensor.is_mpsx = property(lambda tensor: tensor.device.type == _runtime.device_type())  # by either name
    # As torch.mps.event and torch.cuda.streams can be imported, these can be too.
    for name, module in _MODULES.items():
        _sys.modules[f"torch.mpsx.{name}"] = module
    backend = _ModuleType("torch.backends.mpsx", "torch.backends.mps's questions, about mpsx.")
    backend.is_built = backend.is_available = is_available
    backend.is_macos_or_newer = lambda major, minor: True
    backend.is_macos13_or_newer = lambda minor=0: True
    backend.get_name = get_device_name
    backend.get_core_count = lambda: _runtime.driver()["cores"]
    _torch.backends.mpsx = _sys.modules[backend.__name__] = backend


event = streams
_MODULES = {"event": event, "memory": memory, "profiler": profiler, "random": random, "streams": streams}
_used = (_time.monotonic(), _time.process_time())  # when `utilization` was last called: the clock, and the CPU's time


def __dir__() -> list[str]:
    return [name for name in globals() if not name.startswith("_")] + ["compile_shader"]


def is_available() -> bool:
    """Whether the device can be used; it always can: without a GPU, kernels run on the CPU."""
    return True


def is_mps() -> bool:
    """Whether the device goes by the name of mps at the moment: see `mpsx.as_mps`."""
    return _runtime.device_type() == "mps"


def load_metallib(path: str) -> None:
    """Refused: a .metallib has no source, and Metal alone can run it."""
    raise RuntimeError("load_metallib: mpsx compiles shaders from source; pass the Metal source to compile_shader")


def ipc_collect() -> None:
    """A CUDA notion; nothing to do."""


def can_device_access_peer(device: object, peer_device: object) -> bool:
    """A CUDA notion; there is one device."""
    return False


def is_current_stream_capturing() -> bool:
    """A CUDA notion: there are no graphs of the device's to be captured."""
    return False


def get_arch_list() -> list[str]:
    """A CUDA notion; none."""
    return []


def is_initialized() -> bool:
    """Whether anything has used the device yet."""
    return _runtime.driver_started()


def init() -> None:
    """Starts the driver; using the device does so too."""
    _runtime.driver()


_lazy_init = init


def _is_in_bad_fork() -> bool:
    try:
        _runtime.restart_check()
    except RuntimeError:
        return True
    return False


def device_count() -> int:
    """How many devices there are: one, or one per process of this machine where processes share it.

    That is LOCAL_WORLD_SIZE, which torchrun sets, or else the size of the largest torch.distributed group so far. The
    indices below it all mean the one device.
    """
    return _runtime.device_count()


def current_device() -> int:
    """The index of the current device: 0."""
    return 0


def set_device(device: object) -> None:
    """Chooses the current device; there is one."""
    _check_device(device)


def _check_device(which: object) -> None:
    index = which if isinstance(which, int) else _torch.device("mpsx" if which is None else which).index
    if index not in (None, -1) and not _runtime.is_device_index(index):
        raise ValueError(f"mpsx: expected device index 0, got {index}")


class device:
    """Chooses the current device for the length of a with block; there is one."""

    def __init__(self, device: object) -> None:
        _check_device(device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class device_of(device):
    """`device(tensor.device)`, or nothing for a tensor that is elsewhere."""

    def __init__(self, tensor: _torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.is_mpsx else None)


def synchronize(device: object = None) -> None:
    """Waits for all work of the device, and raises what went wrong there."""
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
    is_integrated: bool = True  # torch.cuda's name for it


def get_device_properties(device: object = None) -> DeviceProperties:
    """Name, driver, instruction set and memory."""
    _check_device(device)
    info = _runtime.driver()
    return DeviceProperties(info["device"], info["name"], info["isa"], info["compiler"], recommended_max_memory())


def get_device_name(device: object = None) -> str:
    """The device's name for people."""
    return get_device_properties(device).name


def get_device_capability(device: object = None) -> tuple[int, int]:
    """A CUDA notion; (0, 0)."""
    _check_device(device)
    return (0, 0)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works; it does, computing in float32."""
    return True


def is_tf32_supported() -> bool:
    """Whether products of float32 can be computed in TF32; they never are."""
    return False


def utilization(device: object = None) -> int:
    """The percentage of the time since the last call (at first: since the start) in which the device was busy.

    The device of the host and simt drivers is the CPU, of which this process's share counts. Other drivers have no
    such counter.
    """
    global _used
    _check_device(device)
    driver = _runtime.driver()["name"]
    if driver not in ("host", "simt"):
        raise NotImplementedError(f"utilization: the {driver} driver does not count how long the GPU was busy")
    before, _used = _used, (_time.monotonic(), _time.process_time())
    elapsed, busy = (now - then for now, then in zip(_used, before, strict=True))
    return min(100, round(100 * busy / max(elapsed * (_os.cpu_count() or 1), 1e-9)))


def get_amp_supported_dtype() -> list[_torch.dtype]:
    """The types that `torch.autocast("mpsx", dtype=…)` takes."""
    return [_torch.float16, _torch.bfloat16]
