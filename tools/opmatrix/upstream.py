"""Operator support in PyTorch's MPS backend, according to the lists in PyTorch's tests.

For each operator and dtype, torch/testing/_internal/common_mps.py marks the tests in test/test_mps.py that are skipped
or expected to fail: test_output_match for forward, and test_output_grad_match for backward (in float32 and float16).
Without MPS, that module defines nothing, so it is loaded with patches that simulate a Mac running a current macOS.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterable, Mapping
from types import ModuleType
from unittest import mock

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.opinfo.core import DecorateInfo, OpInfo

from .records import Key
from .tags import DTYPES

MACOS = 26.0
# Equal to MPS_DTYPES and MPS_GRAD_DTYPES in test_mps.py.
FORWARD = {
    torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.bool, torch.complex64,
}  # fmt: skip
BACKWARD = {torch.float32, torch.float16}


def load_lists() -> ModuleType:
    """Import common_mps as if this were a Mac."""
    spec = importlib.util.find_spec("torch.testing._internal.common_mps")
    module = importlib.util.module_from_spec(spec)
    with mock.patch.object(torch.backends.mps, "is_available", return_value=True), \
         mock.patch.object(common_utils, "MACOS_VERSION", MACOS):  # fmt: skip
        spec.loader.exec_module(module)
    return module


def marked(op: OpInfo, dtype: torch.dtype, test: str) -> str:
    """Return "fails" if the test is expected to fail, "skipped" if it is skipped, and "passes" otherwise."""

    def body() -> None:
        """Do nothing. The decorators attach their marks to this function."""

    for decorator in op.decorators:
        if isinstance(decorator, DecorateInfo) and decorator.is_active("TestConsistency", test, "mps", dtype, {}):
            for mark in decorator.decorators:
                body = mark(body)
    if getattr(body, "__unittest_skip__", False):
        return "skipped"
    return "fails" if getattr(body, "__unittest_expecting_failure__", False) else "passes"


def statuses(ops: Mapping[str, OpInfo], keys: Iterable[Key]) -> dict[Key, str]:
    """Return the status of each case that PyTorch tests on MPS: "passes", "fails", or "skipped"."""
    lists = load_lists()
    # Like test_mps.py, apply the backward marks on top of the forward marks.
    forward = lists.mps_ops_modifier([copy.copy(op) for op in ops.values()])
    backward = lists.mps_ops_grad_modifier([copy.copy(op) for op in forward])
    tests = {
        "forward": ("test_output_match", dict(zip(ops, forward, strict=True)), FORWARD, OpInfo.supported_dtypes),
        "backward": ("test_output_grad_match", dict(zip(ops, backward, strict=True)), BACKWARD,
                     OpInfo.supported_backward_dtypes),
    }  # fmt: skip
    found = {}
    for key in keys:
        name, direction, tag = key
        if direction in tests:
            test, marks, tested, supported = tests[direction]
            dtype = getattr(torch, DTYPES[tag])
            if dtype in supported(marks[name], "mps") & tested:
                found[key] = marked(marks[name], dtype, test)
    return found
