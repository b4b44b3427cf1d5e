"""Differences that are torch's own, or by design: names and kinds (regular expressions), an optional test of the line,
and the reason. Each is printed with how often it occurred."""

from __future__ import annotations

import re

REASONS: list[tuple[str, str, str, str]] = [
    (r"cosh", "values", "int", "the CPU's cosh of integers overflows one step early"),
    (r"median", "values", "as_strided", "the CPU's median of expanded rows is wrong"),
    (r"interpolate|upsample", "values", "antialias", "the CPU's antialiasing of width 1 is wrong"),
    (r"pad", "values", "circular", "the CPU's circular padding by a negative number is wrong"),
    (r"avg_pool3d|native_batch_norm", "values", "out=", "the CPU leaves out= unwritten"),
    (r"native_group_norm", "values", "as_strided", "the CPU reads a strided weight or bias as if it were dense"),
    (r"max_pool3d", "values", "indices=True", "the CPU's place of a maximum that is -inf"),
    (r"(var|std)_mean", "values", "INF|elements", "the CPU's mean of an infinity is NaN there"),
    (r"tri[ul]", "values", "out=", "the CPU writes a strided out= as if it were dense"),
]


def reason(name: str, kind: str, line: str) -> str | None:
    """Why a difference is none of ours."""
    for names, kinds, text, why in REASONS:
        if re.search(names, name) and re.fullmatch(kinds, kind) and re.search(text, line):
            return why
    return None
