"""Operators without an mpsx kernel run on the CPU, on the same memory. This is the policy; the routing is in C++.

    mpsx.fallback.set_mode("error")         # or "warn" (the default: once an operator), "silent"
    print(mpsx.fallback.report())           # what fell back, how often, for how long
    mpsx.fallback.register("aten::foo", fn) # a fallback of your own

The environment sets the mode at start: MPSX_FALLBACK=warn|silent|error, or else PyTorch's own
PYTORCH_ENABLE_MPS_FALLBACK: 0 means error, 1 means warn. Unlike PyTorch's MPS backend, the default is to fall back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch.utils._pytree import tree_map

from . import _runtime
from .device.views import cpu_view, device_view

MODES = ("warn", "silent", "error")


def mode() -> str:
    """The policy for operators that fall back: "warn", "silent" or "error"."""
    return MODES[_runtime.fallback_mode()]


def set_mode(mode: str) -> None:
    """Chooses what happens when an operator falls back."""
    if mode not in MODES:
        raise ValueError(f"set_mode: expected one of {', '.join(MODES)}, got {mode!r}")
    _runtime.set_fallback_mode(MODES.index(mode))


@contextlib.contextmanager
def using_mode(mode: str) -> Iterator[None]:
    """`set_mode` for the length of a with block, in every thread."""
    before = _runtime.fallback_mode()
    set_mode(mode)
    try:
        yield
    finally:
        _runtime.set_fallback_mode(before)


def mode_of(environment: Mapping[str, str]) -> str:
    """The mode that environment variables ask for."""
    chosen = environment.get("MPSX_FALLBACK")
    if chosen is None:
        chosen = "error" if environment.get("PYTORCH_ENABLE_MPS_FALLBACK") == "0" else "warn"
    if chosen not in MODES:
        raise ValueError(f"MPSX_FALLBACK: expected one of {', '.join(MODES)}, got {chosen!r}")
    return chosen


def configure(environment: Mapping[str, str]) -> None:
    """Takes the mode from environment variables."""
    set_mode(mode_of(environment))


@dataclass(frozen=True)
class Entry:
    """One operator that fell back."""

    name: str
    calls: int
    seconds: float
    bytes: int  # that the CPU was given to work on


def entries() -> list[Entry]:
    """The operators that fell back since the start or the last `reset()`, the longest first."""
    rows = [Entry(r["name"], r["calls"], r["nanoseconds"] / 1e9, r["bytes"]) for r in _runtime.fallback_rows()]
    return sorted(rows, key=lambda entry: entry.seconds, reverse=True)


def report() -> str:
    """`entries()` as a table."""
    found = entries()
    if not found:
        return "No operator fell back to the CPU."
    width = max(len(entry.name) for entry in found)
    lines = [f"{'operator':<{width}}  {'calls':>9}  {'ms':>10}  {'µs/call':>9}  {'MiB':>9}"]
    lines += [
        f"{e.name:<{width}}  {e.calls:>9}  {e.seconds * 1e3:>10.2f}  {e.seconds / e.calls * 1e6:>9.2f}  "
        f"{e.bytes / 2**20:>9.2f}"
        for e in found
    ]
    total = sum(entry.seconds for entry in found)
    lines.append(f"{len(found)} operators, {sum(e.calls for e in found)} calls, {total * 1e3:.2f} ms on the CPU")
    return "\n".join(lines)


def reset() -> None:
    """Forgets the counts, and which operators were warned about."""
    _runtime.reset_fallback()


class Registration:
    """A fallback of somebody's own; `remove()` it, or use it as a context manager."""

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self.name = name
        self._library: torch.library.Library | None = torch.library.Library(name.partition("::")[0], "IMPL")
        try:
            self._library.impl(name, function, "PrivateUse1", allow_override=True)
        except Exception:
            self.remove()
            raise

    def remove(self) -> None:
        """Goes back to what was there before."""
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register(name: str, function: Callable[..., object]) -> Registration:
    """Runs `function` for the operator `name` ("aten::foo" or "aten::foo.out") on mpsx tensors, kernel or not.

    It gets the operator's own arguments, with mpsx tensors, and returns mpsx tensors. To run the operator on the CPU
    from there, use `on_cpu`; calling the operator itself on mpsx tensors would come back to `function`.
    """
    if "::" not in name:
        raise ValueError(f"register: expected a name like 'aten::foo', got {name!r}")
    return Registration(name, function)


def on_cpu(operator: Callable[..., object], *args: object, **kwargs: object) -> object:
    """Calls `operator` with CPU views of mpsx tensors, and gives views of its results back on mpsx. Nothing is copied.

    Arguments that the operator resizes are not carried back.
    """

    def to_cpu(value: object) -> object:
        if isinstance(value, torch.Tensor) and value.device.type == _runtime.device_type():
            return cpu_view(value)
        if isinstance(value, torch.device) and value.type == _runtime.device_type():
            return torch.device("cpu")
        return value

    result = operator(*tree_map(to_cpu, args), **tree_map(to_cpu, kwargs))
    return tree_map(lambda value: device_view(value) if isinstance(value, torch.Tensor) else value, result)
