"""Measure a case: run its OpInfo test, and derive the status from the launch log."""

from __future__ import annotations

import contextlib
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

import mpsx

from .cases import CHECKS, Case, by_id, common
from .routes import names, route, worst
from .tags import DTYPES

MAX_REASON = 400


@dataclass
class Record:
    """The result of measuring a case."""

    op: str
    direction: str
    dtype: str
    status: str
    samples: int = 0
    shares: dict[str, int] = field(default_factory=dict)  # number of samples for each route
    kernels: list[str] = field(default_factory=list)
    vendor: dict[str, str] = field(default_factory=dict)  # maps operators to libraries
    fallback: list[str] = field(default_factory=list)
    why: str = ""  # the reason if the status is "fails" or "untested"
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Convert to a dict without empty fields, for JSON."""
        return {key: value for key, value in asdict(self).items() if value not in ("", [], {})}


def reason(error: BaseException) -> str:
    """Summarize an exception. If it has no message, return the test line that failed."""
    where = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/opinfo/" in frame.filename]
    text = " ".join(str(error).split())[:MAX_REASON] or (where[-1].line if where else "")
    return f"{type(error).__name__}: {text}"


def libraries() -> dict[str, str]:
    """Map each vendor operator that ran to its library."""
    return {row.name: row.library for row in mpsx.profiler.rows() if row.route == "vendor"}


def measure(case: Case, count: int | None) -> Record:
    """Run a case's OpInfo test on `count` samples, or on all of them if `count` is None."""
    if case.op in common.NOT_COMPARABLE:
        return Record(case.op, case.direction, case.dtype, "untested", why=common.NOT_COMPARABLE[case.op])
    logs: list[list[str]] = []

    @contextlib.contextmanager
    def watch() -> Iterator[None]:
        with mpsx.profiler.launch_log() as log:
            yield
        logs.append(log)

    op, dtype = by_id()[case.op], getattr(torch, DTYPES[case.dtype])
    why, start, compared = "", time.perf_counter(), 0
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings(), mpsx.fallback.using_mode("silent"):
            warnings.simplefilter("ignore")
            compared = CHECKS[case.direction](op, dtype, count, watch)
    except Exception as error:
        why = reason(error)
    shares = Counter(route(log) for log in logs)
    if why:
        status = "fails"
    elif not compared:
        status, why = "untested", "no sample that the CPU accepts has a result to compare"
    else:
        status = worst(shares)
    known = libraries()
    return Record(
        case.op, case.direction, case.dtype, status, compared, dict(shares), names(logs, "kernel:"),
        {name: known.get(name, "") for name in names(logs, "vendor:")}, names(logs, "fallback:"), why,
        round(time.perf_counter() - start, 3),
    )  # fmt: skip
