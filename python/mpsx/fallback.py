"""The policy for operators without an mpsx kernel. They run on the CPU, on the same memory. C++ routes the calls.

    mpsx.fallback.set_mode("error")         # or "warn" (the default: once per operator), "silent"
    print(mpsx.fallback.report())           # operators that fell back: calls, time, bytes
    mpsx.fallback.register("aten::foo", fn) # register your own fallback

The initial mode comes from MPSX_FALLBACK=warn|silent|error. If it is not set, PyTorch's PYTORCH_ENABLE_MPS_FALLBACK
applies (0 means error, 1 means warn). Unlike PyTorch's MPS backend, mpsx falls back by default.
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
    """Return the policy for operators that fall back: "warn", "silent" or "error"."""
    return MODES[_runtime.fallback_mode()]


def set_mode(mode: str) -> None:
    """Set what happens when an operator falls back: "warn", "silent" or "error"."""
    if mode not in MODES:
        raise ValueError(f"set_mode: expected one of {', '.join(MODES)}, got {mode!r}")
    _runtime.set_fallback_mode(MODES.index(mode))


@contextlib.contextmanager
def using_mode(mode: str) -> Iterator[None]:
    """Set the mode inside a with block, for all threads."""
    before = _runtime.fallback_mode()
    set_mode(mode)
    try:
        yield
    finally:
        _runtime.set_fallback_mode(before)


def mode_of(environment: Mapping[str, str]) -> str:
    """Return the mode selected by the environment variables."""
    chosen = environment.get("MPSX_FALLBACK")
    if chosen is None:
        chosen = "error" if environment.get("PYTORCH_ENABLE_MPS_FALLBACK") == "0" else "warn"
    if chosen not in MODES:
        raise ValueError(f"MPSX_FALLBACK: expected one of {', '.join(MODES)}, got {chosen!r}")
    return chosen


def configure(environment: Mapping[str, str]) -> None:
    """Set the mode from environment variables."""
    set_mode(mode_of(environment))


@dataclass(frozen=True)
class Entry:
    """One operator that fell back."""

    name: str
    calls: int
    seconds: float
    bytes: int  # total size of all tensor arguments


def entries() -> list[Entry]:
    """Return the operators that fell back since process start or the last `reset()`, longest total time first."""
    rows = [Entry(r["name"], r["calls"], r["nanoseconds"] / 1e9, r["bytes"]) for r in _runtime.fallback_rows()]
    return sorted(rows, key=lambda entry: entry.seconds, reverse=True)


def report() -> str:
    """Format `entries()` as a table."""
    found = entries()
    if not found:
        return "No operator fell back to the CPU."
    width = max(8, *(len(entry.name) for entry in found))
    lines = [f"{'operator':<{width}}  {'calls':>9}  {'ms':>10}  {'µs/call':>9}  {'MiB':>9}"]
    lines += [
        f"{e.name:<{width}}  {e.calls:>9}  {e.seconds * 1e3:>10.2f}  {e.seconds / e.calls * 1e6:>9.2f}  "
        f"{e.bytes / 2**20:>9.2f}"
        for e in found
    ]
    lines.append(f"{'total':<{width}}  {sum(e.calls for e in found):>9}  {sum(e.seconds for e in found) * 1e3:>10.2f}")
    return "\n".join(lines)


def reset() -> None:
    """Clear the counts, so that each operator warns again."""
    _runtime.reset_fallback()


class Registration:
    """A registered fallback. Call `remove()`, or use it as a context manager."""

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self.name = name
        self._library: torch.library.Library | None = torch.library.Library(name.partition("::")[0], "IMPL")
        try:
            self._library.impl(name, function, "PrivateUse1", allow_override=True)
        except Exception:
            self.remove()
            raise

    def remove(self) -> None:
        """Restore the previous implementation."""
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register(name: str, function: Callable[..., object]) -> Registration:
    """Run `function` for the operator `name` ("aten::foo" or "aten::foo.out") on mpsx tensors, even if it has a kernel.

    `function` receives the operator's arguments with mpsx tensors, and returns mpsx tensors. To run the operator on the
    CPU, use `on_cpu`. Calling the operator on mpsx tensors would recurse.
    """
    if "::" not in name:
        raise ValueError(f"register: expected a name like 'aten::foo', got {name!r}")
    return Registration(name, function)


def on_cpu(operator: Callable[..., object], *args: object, **kwargs: object) -> object:
    """Call `operator` on CPU views of mpsx tensors, and return mpsx views of its results. Copies nothing.

    If the operator resizes an argument, the mpsx tensor keeps its old size.
    """

    def to_cpu(value: object) -> object:
        if isinstance(value, torch.Tensor) and value.device.type == _runtime.device_type():
            return cpu_view(value)
        if isinstance(value, torch.device) and value.type == _runtime.device_type():
            return torch.device("cpu")
        return value

    result = operator(*tree_map(to_cpu, args), **tree_map(to_cpu, kwargs))
    return tree_map(lambda value: device_view(value) if isinstance(value, torch.Tensor) else value, result)
