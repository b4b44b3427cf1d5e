"""Check that each operator still runs as recorded in the committed support matrix: by kernel, library or fallback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

import mpsx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from opmatrix import summary
from opmatrix.routes import route
from opmatrix.tags import tag_of

from .checks import Watch


@cache
def committed() -> summary.Summary:
    """Load the summary for the current driver. It is empty if it was recorded with a different torch version."""
    found = summary.load(str(mpsx.driver()["name"]))
    version = torch.__version__.partition("+")[0].rpartition(".")[0]
    return found if found and found.torch.rpartition(".")[0] == version else summary.Summary(version)


@contextmanager
def still_runs(name: str, direction: str, dtype: torch.dtype) -> Iterator[Watch]:
    """Yield a `watch` function for a check. Afterwards, fail if an operator got worse, for example if it fell back."""
    logs: list[list[str]] = []

    @contextmanager
    def watch() -> Iterator[None]:
        with mpsx.profiler.launch_log() as log:
            yield
        logs.append(log)

    yield watch
    before = committed().statuses.get((name, direction, tag_of(dtype)))
    for log in logs:
        worse = before in summary.RANK and summary.RANK[route(log)] < summary.RANK[before]
        assert not worse, (
            f"{name} {direction} was {before}, but ran {', '.join(log)}; if this is intended: "
            f"python tools/opmatrix.py --only {name} --update"
        )
