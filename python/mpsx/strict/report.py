"""The report of strict mode, as text and as JSON. It has one row per problem and source line."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path

import torch

# Frames in these folders are not the user's code.
_INSIDE = tuple(os.path.join(os.path.dirname(os.path.abspath(path)), "") for path in (
    torch.__file__, Path(__file__).parent, os.__file__))  # fmt: skip
_SITE = os.path.join("", "site-packages", "")
BACKWARD = "the backward pass"

_lock = threading.Lock()
_found: Counter[tuple[str, str, str]] = Counter()


def caller() -> str:
    """Return file:line of the innermost Python frame outside PyTorch, mpsx, and the standard library."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file in ("<string>", "<stdin>") or not file.startswith(("<", *_INSIDE)) or (
                _SITE in file and not file.startswith(_INSIDE[:2])):  # fmt: skip
            short = os.path.relpath(file) if os.path.isabs(file) else file
            return f"{file if short.startswith('..') else short}:{frame.f_lineno}"
        frame = frame.f_back
    return BACKWARD


def add(kind: str, what: str) -> None:
    """Count one problem. `kind` is "operator", "dtype", "tensor", or "fallback"."""
    where = caller()
    with _lock:
        _found[kind, what, where] += 1


def clear() -> None:
    """Clear the recorded problems."""
    with _lock:
        _found.clear()


def rows() -> list[dict[str, object]]:
    """Return the problems in order of first appearance: kind, what, where, and number of calls."""
    with _lock:
        return [{"kind": kind, "what": what, "where": where, "calls": calls}
                for (kind, what, where), calls in _found.items()]  # fmt: skip


def _group(found: list[dict[str, object]], kind: str) -> list[str]:
    places: dict[str, list[str]] = {}
    for row in found:
        if row["kind"] == kind:
            places.setdefault(str(row["what"]), []).append(str(row["where"]))
    return [f"{what} at {', '.join(where)}" for what, where in places.items()]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def text(found: list[dict[str, object]] | None = None) -> str:
    """Return the problems as one paragraph: "on a Mac: 1 operator rejected (aten::_ctc_loss at train.py:31)"."""
    found = rows() if found is None else found
    parts = []
    if operators := _group(found, "operator"):
        parts.append(f"{_count(len(operators), 'operator')} rejected ({'; '.join(operators)})")
    if fallbacks := _group(found, "fallback"):
        parts.append(f"{_count(len(fallbacks), 'operator')} on the CPU ({'; '.join(fallbacks)})")
    if dtypes := _group(found, "dtype"):
        parts.append(f"{_count(len(dtypes), 'dtype')} rejected ({'; '.join(dtypes)})")
    parts += _group(found, "tensor")
    return f"on a Mac: {', '.join(parts) or 'nothing rejected'}"


def print_at_exit() -> None:
    """Print the text to stderr. If $MPSX_STRICT_REPORT is set, also write JSON to that file."""
    found = rows()
    path = os.environ.get("MPSX_STRICT_REPORT")
    if path:
        Path(path).write_text(json.dumps({"torch": torch.__version__, "found": found}, indent=1) + "\n")
    print(f"mpsx strict: {text(found)}", file=sys.stderr)
