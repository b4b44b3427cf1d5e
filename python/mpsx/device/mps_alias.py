"""Run unmodified programs written for PyTorch's `mps`: `python -m mpsx run script.py`, or `with mpsx.as_mps(): …`.

The device is named mps in `torch.device("mps")`, `torch.mps`, `torch.backends.mps`, and printed tensors. The name mpsx
still works. The alias applies to the whole process and, under `run`, to its child processes as well.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import torch
import torch.mps.event
import torch.mps.profiler

from .. import _runtime
from . import module, profiler

ENVIRONMENT = "MPSX_AS_MPS"

_depth = 0
_replaced: list[tuple[object, str, object]] = []
_ABSENT = object()


def _replace(owner: object, name: str, value: object) -> None:
    _replaced.append((owner, name, vars(owner).get(name, _ABSENT)))
    setattr(owner, name, value)


def enter() -> None:
    """Rename the device to mps. `leave` undoes this."""
    global _depth
    if _depth == 0:
        _runtime.set_mps_alias(True)
        # Patch torch.mps's modules in place, because programs import names from sys.modules.
        _replace(torch.mps.event, "Event", module.Event)
        for name in profiler.__all__:
            _replace(torch.mps.profiler, name, getattr(profiler, name))
        for name in dir(module):
            _replace(torch.mps, name, getattr(module, name))
        for name in ("_initialized", "_is_in_bad_fork", "_lazy_init"):
            _replace(torch.mps, name, getattr(module, name))
        for name in ("is_built", "is_available", "is_macos_or_newer", "is_macos13_or_newer"):
            _replace(torch.backends.mps, name, lambda *version: True)
        _replace(torch.backends.mps, "get_name", module.get_device_name)
        _replace(torch.backends.mps, "get_core_count", lambda: _runtime.driver()["cores"])
        _replace(torch.Tensor, "is_mps", property(lambda tensor: tensor.device.type == "mps"))
        _clear_availability_caches()
    _depth += 1


def leave() -> None:
    """Undo one call of `enter`."""
    global _depth
    _depth -= 1
    if _depth == 0:
        while _replaced:
            owner, name, value = _replaced.pop()
            delattr(owner, name) if value is _ABSENT else setattr(owner, name, value)
        _runtime.set_mps_alias(False)
        _clear_availability_caches()


def _clear_availability_caches() -> None:
    """Make Lightning check again whether mps is available."""
    for package in ("lightning.fabric", "lightning_fabric"):
        module = sys.modules.get(f"{package}.accelerators.mps")
        if module is not None:
            module.MPSAccelerator.is_available.cache_clear()


@contextlib.contextmanager
def as_mps(strict: bool | str = False) -> Iterator[None]:
    """Make `mps` mean mpsx inside the block, in all threads. Objects created outside the block work inside it.

    `strict=True` rejects what PyTorch's MPS rejects, with the same exceptions: float64, and operators or dtypes without
    an MPS kernel. `strict="report"` runs everything, and `mpsx.strict.text()` lists what would have been rejected.
    """
    from .. import strict as strict_mode

    mode = strict_mode.mode_of(strict)
    enter()
    try:
        if mode:
            strict_mode.enter(mode)
        try:
            yield
        finally:
            if mode:
                strict_mode.leave()
    finally:
        leave()
