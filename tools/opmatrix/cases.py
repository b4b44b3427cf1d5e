"""The cases to measure: every OpInfo of the installed torch, in every dtype that it declares for the CPU."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from opinfo import checks, common  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.opinfo.core import (  # noqa: E402
    BinaryUfuncInfo,
    OpInfo,
    ReductionOpInfo,
    ShapeFuncInfo,
    SpectralFuncInfo,
    UnaryUfuncInfo,
)

from .tags import DIRECTIONS, TAGS, tag_of  # noqa: E402

CHECKS: dict[str, Callable[..., int]] = {
    "forward": checks.check_forward,
    "backward": checks.check_backward,
    "double_backward": checks.check_double_backward,
    "forward_mode": checks.check_forward_mode,
}

BY_PREFIX = {
    "nn.functional.": "nn", "linalg.": "linalg", "fft.": "fft", "special.": "special", "masked.": "masked",
    "sparse.": "sparse", "signal.": "signal", "torch.ops.aten.": "internal",
}  # fmt: skip
BY_CLASS = {
    UnaryUfuncInfo: "unary", BinaryUfuncInfo: "binary", ReductionOpInfo: "reduction", ShapeFuncInfo: "shape",
    SpectralFuncInfo: "fft",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One cell of the matrix."""

    op: str
    direction: str
    dtype: str  # a tag such as "f32"


@functools.cache
def by_id() -> dict[str, OpInfo]:
    """Map the names that the tests use to OpInfos."""
    return {common.op_id(op): op for op in op_db}


def family(op: OpInfo) -> str:
    """Return an operator's family, based on the prefix of its name or, failing that, on its OpInfo's class."""
    for prefix, name in BY_PREFIX.items():
        if op.name.startswith(prefix):
            return name
    return next((name for kind, name in BY_CLASS.items() if isinstance(op, kind)), "other")


def dtypes(op: OpInfo, direction: str) -> set[torch.dtype]:
    """Return the dtypes in which the OpInfo supports this direction on the CPU."""
    if direction == "forward":
        return common.forward_dtypes(op)
    if (direction == "double_backward" and not op.supports_gradgrad) or (
        direction == "forward_mode" and not op.supports_forward_ad
    ):
        return set()
    return common.backward_dtypes(op)


def cases(directions: Iterable[str] = DIRECTIONS, tags: Iterable[str] = (), only: Iterable[str] = ()) -> list[Case]:
    """Return the cases in the order of op_db. `only` selects operators whose names contain one of the given strings."""
    wanted, parts = set(tags), [part.lower() for part in only]
    return [
        Case(name, direction, tag_of(dtype))
        for name, op in by_id().items()
        if not parts or any(part in name.lower() for part in parts)
        for direction in directions
        for dtype in sorted(dtypes(op, direction), key=lambda dtype: TAGS.index(tag_of(dtype)))
        if not wanted or tag_of(dtype) in wanted
    ]
