"""Programs for PyTorch's own `mps`, unmodified: `python -m mpsx run script.py`, or `with mpsx.as_mps(): …`.

The device goes by the name of mps: `torch.device("mps")`, `torch.mps`, `torch.backends.mps` and what tensors print.
Both names are understood meanwhile. It holds for the whole process, and with `run` for the processes that it starts.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Iterator

import torch
import torch.mps.event
import torch.mps.profiler

from .. import _runtime
from . import module, profiler

ENVIRONMENT = "MPSX_AS_MPS"

_depth = 0
_before: list[tuple[object, str, object]] = []
_ABSENT = object()


def _put(owner: object, name: str, value: object) -> None:
    _before.append((owner, name, vars(owner).get(name, _ABSENT)))
    setattr(owner, name, value)


def enter() -> None:
    """Gives the device the name; `leave` takes it back."""
    global _depth
    if _depth == 0:
        _runtime.set_mps_name(True)
        # Its modules keep their place in sys.modules, from which programs import names.
        _put(torch.mps.event, "Event", module.Event)
        for name in profiler.__all__:
            _put(torch.mps.profiler, name, getattr(profiler, name))
        for name in dir(module):
            _put(torch.mps, name, getattr(module, name))
        for name in ("_initialized", "_is_in_bad_fork", "_lazy_init"):
            _put(torch.mps, name, getattr(module, name))
        for name in ("is_built", "is_available", "is_macos_or_newer", "is_macos13_or_newer"):
            _put(torch.backends.mps, name, lambda *version: True)
        _put(torch.backends.mps, "get_name", module.get_device_name)
        _put(torch.backends.mps, "get_core_count", lambda: _runtime.driver()["cores"])
        _put(torch.Tensor, "is_mps", property(lambda tensor: tensor.device.type == "mps"))
        _forget_answers()
    _depth += 1


def leave() -> None:
    """Undoes one `enter`."""
    global _depth
    _depth -= 1
    if _depth == 0:
        while _before:
            owner, name, value = _before.pop()
            delattr(owner, name) if value is _ABSENT else setattr(owner, name, value)
        _runtime.set_mps_name(False)
        _forget_answers()


def _forget_answers() -> None:
    """Lightning keeps the answer to whether there is an mps."""
    for package in ("lightning.fabric", "lightning_fabric"):
        module = sys.modules.get(f"{package}.accelerators.mps")
        if module is not None:
            module.MPSAccelerator.is_available.cache_clear()


@contextlib.contextmanager
def as_mps() -> Iterator[None]:
    """`mps` means mpsx inside the block, in every thread. Objects that were made outside can be used inside."""
    enter()
    try:
        yield
    finally:
        leave()


def run(words: list[str]) -> None:
    """`python -m mpsx run script.py …` or `run -m module …`."""
    if not words or words == ["-m"]:
        raise SystemExit("usage: python -m mpsx run script.py [arguments], or run -m module [arguments]")
    enter()
    os.environ[ENVIRONMENT] = "1"
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")
