"""The named checks of a stage. Each check prints its outcome for the main process as a line of JSON."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass
class Outcome:
    """The outcome of a check. If a process's last outcome is "started", that check crashed the process."""

    stage: str
    name: str
    status: str  # ok, failed, started, note
    seconds: float = 0.0
    detail: str = ""


def emit(outcome: Outcome) -> None:
    """Print an outcome. Flush it, because the next check may crash the process."""
    sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
    sys.stdout.flush()


def check(stage: str, name: str, body: Callable[[], object]) -> bool:
    """Run `body`. If it succeeds, emit its result, otherwise emit its exception."""
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
