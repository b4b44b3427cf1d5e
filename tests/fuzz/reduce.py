"""Simplify a failing case's arguments as long as the difference persists."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch.utils._pytree import tree_leaves

from .compare import Case, Finding, compare
from .tensor_spec import TensorSpec, change, of


def dense(g: TensorSpec) -> torch.Tensor:
    return g.base.as_strided(g.size, g.stride, g.offset)


def changed(case: Case, old: TensorSpec, new: TensorSpec) -> Case:
    args, kwargs = change((case.args, case.kwargs), lambda g: new if g is old else g)
    return replace(case, args=args, kwargs=kwargs)


def candidates(case: Case) -> Iterator[Case]:
    """Generate simpler cases, largest simplification first."""
    specs = [g for g in tree_leaves((case.args, case.kwargs)) if isinstance(g, TensorSpec)]
    for size in sorted({n for g in specs for n in g.size if n > 1}, reverse=True):
        for fewer in {1, 2, size // 2, size - 1}:
            if fewer < size:  # change every dimension of this size, to keep the shapes compatible

                def narrowed(g: TensorSpec, size: int = size, fewer: int = fewer) -> TensorSpec:
                    return replace(g, size=tuple(fewer if n == size else n for n in g.size))

                args, kwargs = change((case.args, case.kwargs), narrowed)
                yield replace(case, args=args, kwargs=kwargs)
    for key in [k for k in case.kwargs if k != "out"]:
        yield replace(case, kwargs={k: v for k, v in case.kwargs.items() if k != key})
    for g in specs:
        t = dense(g)
        if not t.is_contiguous() or g.offset or g.base.numel() != t.numel():
            yield changed(case, g, replace(of(t.contiguous()), grad=g.grad))
        if t.numel() and t.dtype != torch.bool:
            for value in (0, 1):
                if not (t == value).all():
                    yield changed(case, g, replace(of(torch.full_like(t, value).contiguous()), grad=g.grad))
        if t.dtype in (torch.float16, torch.bfloat16):
            yield changed(case, g, replace(g, base=g.base.float()))


def reduced(case: Case, finding: Finding, seconds: float = 8.0) -> tuple[Case, Finding]:
    """Return the simplest failing case found within the time limit."""
    end = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for simpler in candidates(case):
            if time.monotonic() > end:
                return case, finding
            try:
                found = compare(simpler)
            except Exception:
                continue
            if found and found.kind == finding.kind and found.detail[:12] == finding.detail[:12]:
                case, finding, again = simpler, found, True
                break
    return case, finding
