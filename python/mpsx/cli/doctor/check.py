"""Stages consist of named checks, whose outcomes are printed as lines of JSON for the collecting process."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass
class Outcome:
    """One check: "started" is only seen of one that ended its process."""

    stage: str
    name: str
    status: str  # ok, failed, started, note
    seconds: float = 0.0
    detail: str = ""


def say(outcome: Outcome) -> None:
    """Prints an outcome for the collector, at once: the next line may be the last."""
    sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
    sys.stdout.flush()


def check(stage: str, name: str, body: Callable[[], object]) -> bool:
    """Runs `body`; what it returns is the detail, what it raises a failure."""
    say(Outcome(stage, name, "started"))
    start = time.perf_counter()
    try:
        detail, status = body(), "ok"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[1:]
        where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames[-4:]))
        detail, status = f"{type(error).__name__}: {error}\n{where}", "failed"
    say(Outcome(stage, name, status, time.perf_counter() - start, "" if detail is None else str(detail)))
    return status == "ok"


def note(stage: str, name: str, detail: object) -> None:
    """A fact for the report."""
    say(Outcome(stage, name, "note", 0.0, str(detail)))
