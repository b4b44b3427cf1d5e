"""Operators that the committed op-support matrix calls native must still be: checked while the tests run anyway."""

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
    """The summary of the driver in use; an empty one where there is none, or where it is of other OpInfos."""
    found = summary.load(str(mpsx.driver()["name"]))
    version = torch.__version__.partition("+")[0].rpartition(".")[0]
    return found if found and found.torch.rpartition(".")[0] == version else summary.Summary(version)


@contextmanager
def still_runs(name: str, direction: str, dtype: torch.dtype) -> Iterator[Watch]:
    """Gives what a check takes as `watch`; afterwards each sample must have gone as the summary says, or better."""
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
            f"{name} {direction} was {before}, and now ran {', '.join(log)}; if that is meant to be: "
            f"python tools/opmatrix.py --only {name} --update"
        )
