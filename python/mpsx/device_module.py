"""The module that torch shows as `torch.mpsx`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import count

import torch

from . import _runtime, random  # noqa: F401
from .memory import *  # noqa: F403
from .memory import recommended_max_memory
from .random import *  # noqa: F403
from .random import default_generators  # noqa: F401
from .streams import *  # noqa: F403

# torch.utils.checkpoint saves and restores the random state of devices that say so; the generator needs no driver.
_initialized = True


# Inductor asks a device's module for these, once, when it first compiles something.
_INDUCTOR = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")


def __getattr__(name: str) -> object:
    if name in _INDUCTOR:
        from . import inductor

        return getattr(inductor, name)
    raise AttributeError(f"module 'torch.mpsx' has no attribute {name!r}")


def register() -> None:
    """Makes this module `torch.mpsx`, and adds `Tensor.mpsx()`, `Module.mpsx()`, `is_mpsx` and the like."""
    torch._register_device_module("mpsx", sys.modules[__name__])
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )


def is_available() -> bool:
    """Whether the device can be used; it always can: without a GPU, kernels run on the CPU."""
    return True


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
    """How many devices there are: one, or as many as a torch.distributed group has processes, which share it."""
    return next(index for index in count(1) if not _runtime.is_device_index(index))


def current_device() -> int:
    """The index of the current device: 0."""
    return 0


def set_device(device: object) -> None:
    """Chooses the current device; there is one."""
    _check_device(device)


def _check_device(which: object) -> None:
    index = which if isinstance(which, int) else torch.device("mpsx" if which is None else which).index
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

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == "mpsx" else None)


def synchronize(device: object = None) -> None:
    """Waits for all work of the device, and raises what went wrong there."""
    _check_device(device)
    _runtime.synchronize()


@dataclass(frozen=True)
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


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that `torch.autocast("mpsx", dtype=…)` takes."""
    return [torch.float16, torch.bfloat16]
