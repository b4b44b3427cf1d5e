"""Compare mpsx's strict mode with PyTorch's lists of operators and dtypes that its MPS backend does not implement.

The lists are local variables of mps_ops_modifier in torch/testing/_internal/common_mps.py, so they are read from its
source code.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import importlib.util
import warnings
from collections.abc import Iterable
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo

import mpsx

from . import upstream
from .strict_reasons import UNLIKE_THE_LISTS

Key = tuple[str, torch.dtype]

@functools.cache
def _lists() -> tuple[dict[str, list[torch.dtype] | None], set[str]]:
    """Return UNIMPLEMENTED_XFAILLIST and SUPPORTED_COMPLEX_OPS."""
    found = {}
    source = Path(importlib.util.find_spec("torch.testing._internal.common_mps").origin).read_text()
    for node in ast.walk(ast.parse(source)):
        target = getattr(node, "target", None) or (getattr(node, "targets", None) or [None])[0]
        if isinstance(target, ast.Name) and target.id in ("UNIMPLEMENTED_XFAILLIST", "SUPPORTED_COMPLEX_OPS"):
            code = compile(ast.Expression(node.value), "common_mps.py", "eval")
            found[target.id] = eval(code, {"torch": torch})
    return found["UNIMPLEMENTED_XFAILLIST"], found["SUPPORTED_COMPLEX_OPS"]


@functools.cache
def operators() -> dict[str, OpInfo]:
    """Map the names in PyTorch's lists to OpInfos."""
    return {op.name + op.variant_test_name: op for op in op_db}


@functools.cache
def expected() -> dict[Key, bool]:
    """For each OpInfo and dtype that PyTorch tests on MPS, return whether MPS lacks it. Omits tests that fail for other
    reasons."""
    unimplemented, complex_ops = _lists()
    ops = operators()
    marks = upstream.load_lists().mps_ops_modifier([copy.copy(op) for op in ops.values()])
    found = {}
    for name, op in zip(ops, marks, strict=True):
        for dtype in sorted(upstream.FORWARD & set(op.supported_dtypes("mps")), key=str):
            dtypes = unimplemented.get(name, [])
            if dtypes is None or dtype in dtypes or (dtype.is_complex and name not in complex_ops):
                found[name, dtype] = True
            elif upstream.marked(op, dtype, "test_output_match") == "passes":
                found[name, dtype] = False
    return found


def reason(key: Key) -> str:
    """Return why strict mode does not follow the lists for a case, or "" if it does."""
    dtypes, why = UNLIKE_THE_LISTS.get(key[0], ("", ""))
    return why if dtypes == "*" or str(key[1]).removeprefix("torch.") in dtypes.split() else ""


def rejected(key: Key) -> bool:
    """Return whether strict mode rejects any sample of a case. Call this within `as_mps`."""
    name, dtype = key
    op = operators()[name]
    # sample_inputs() seeds every device before each sample, which takes longer than the sample.
    torch.default_generator.manual_seed(0)
    torch.mpsx.manual_seed(0)
    for sample in op.sample_inputs_func(op, "mps:0", dtype, False):
        mpsx.strict.clear()
        with contextlib.suppress(Exception):
            op(sample.input, *sample.args, **sample.kwargs)
        if any(row["kind"] != "fallback" for row in mpsx.strict.rows()):
            return True
    return False


def compare(keys: Iterable[Key]) -> dict[Key, tuple[bool, bool]]:
    """Return (expected, rejected) for the cases in which they differ without a listed reason."""
    found = {}
    with warnings.catch_warnings(), mpsx.fallback.using_mode("silent"), mpsx.as_mps(strict="report"):
        warnings.simplefilter("ignore")
        for key in keys:
            if not reason(key):
                wanted, got = expected()[key], rejected(key)
                if got != wanted:
                    found[key] = wanted, got
    return found
