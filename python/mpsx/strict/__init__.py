"""Strict mode: reject what PyTorch's MPS backend rejects. This shows without a Mac whether a program runs on one.

    python -m mpsx run --strict train.py             stop at the first call that MPS rejects
    python -m mpsx run --strict=report train.py      run to the end, then list all rejected calls
    with mpsx.as_mps(strict=True): ...               check a block of code (or use strict="report")
    pytest -p mpsx.strict.pytest_plugin --mps-strict

The lists describe the MPS backend of PyTorch 2.13 (lists.py). A check is a kernel that runs before mpsx's own kernel
(checks.py).
"""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Callable, Mapping

import torch

from . import checks, lists, report
from .report import clear, rows, text

__all__ = ["ENVIRONMENT", "MODES", "clear", "enter", "leave", "mode_of", "rows", "text"]

__tracebackhide__ = True  # pytest ends its traceback at the caller's line; so does checks.py's

ENVIRONMENT = "MPSX_STRICT"
MODES = ("error", "report")

_entered: list[str] = []
_libraries: list[torch.library.Library] = []


def mode_of(value: object) -> str:
    """Return "error", "report", or "" (off) for the value of an option: a bool, a mode, or the text of MPSX_STRICT."""
    if value in (None, False, "", "0"):
        return ""
    if value in (True, "1"):
        return "error"
    if value not in MODES:
        raise ValueError(f"strict: expected True, False, or one of {', '.join(MODES)}, got {value!r}")
    return str(value)


def from_environment(environment: Mapping[str, str]) -> None:
    """Enter the mode that MPSX_STRICT selects, and print a report at exit."""
    mode = mode_of(environment.get(ENVIRONMENT))
    if mode:
        enter(mode)
        if mode == "report":
            atexit.register(report.print_at_exit)


def enter(mode: str = "error") -> None:
    """Check every operator in all threads. `leave` undoes this."""
    if not _entered:
        # Look up mpsx's kernels before adding checks, because a check for one dispatch key may change the kernel of
        # another.
        found = [(key, name, tuple(checked)) for key in (*lists.LAYOUTS, checks.AUTOGRAD)
                 for name, checked in checks.all_checks(key).items()]  # fmt: skip
        wrap = {True: _checked, False: _with_float64}
        _install([(key, name, wrap[bool(checked)](torch.library.get_kernel(name, key), checked))
                  for key, name, checked in found])  # fmt: skip
    _entered.append(checks.mode)
    checks.mode = mode


def leave() -> None:
    """Undo one call of `enter`."""
    checks.mode = _entered.pop()
    if not _entered:
        while _libraries:
            _libraries.pop()._destroy()


def _install(kernels: list[tuple[str, str, Callable[..., object]]]) -> None:
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        for key, name, kernel in kernels:
            library.impl(name, kernel, key, with_keyset=True, allow_override=True)


def _with_float64(original: torch._C._SafeKernelFunction, _: object) -> Callable[..., object]:
    def kernel(keyset: torch._C.DispatchKeySet, *args: object, **kwargs: object) -> object:
        before, checks.local.float64 = getattr(checks.local, "float64", False), True
        try:
            return original.call_boxed(keyset, *args, **kwargs)
        finally:
            checks.local.float64 = before

    return kernel


def _checked(original: torch._C._SafeKernelFunction, found: tuple[checks.Check, ...]) -> Callable[..., object]:
    def kernel(keyset: torch._C.DispatchKeySet, *args: object, **kwargs: object) -> object:
        if getattr(checks.local, "busy", False):
            return original.call_boxed(keyset, *args, **kwargs)
        for check in found:
            check(args, kwargs)
        checks.local.busy = True
        try:
            return original.call_boxed(keyset, *args, **kwargs)
        finally:
            checks.local.busy = False

    return kernel
