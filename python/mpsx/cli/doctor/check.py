"""The named checks of a stage. Each prints its outcome as a line of JSON for the main process."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass
class Outcome:
    """The outcome of a check. If the last outcome of a process is "started", that check crashed it."""

    stage: str
    name: str
    status: str  # ok, failed, started, note
    seconds: float = 0.0
    detail: str = ""


def emit(outcome: Outcome) -> None:
    """Print an outcome, and flush, because the next check may crash the process."""
    sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
    sys.stdout.flush()


def check(stage: str, name: str, body: Callable[[], object]) -> bool:
    """Run `body`. Emit its result if it succeeds, or its exception if it fails."""
    emit(Outcome(stage, name, "started"))
    start = time.perf_counter()
    try:
        detail, status = body(), "ok"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[1:]
        where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames[-4:]))
        detail, status = f"{type(error).__name__}: {error}\n{where}", "failed"
    emit(Outcome(stage, name, status, time.perf_counter() - start, "" if detail is None else str(detail)))
    return status == "ok"


def note(stage: str, name: str, detail: object) -> None:
    """Add information to the report."""
    emit(Outcome(stage, name, "note", 0.0, str(detail)))
