"""Run code with different numbers of CPU threads, which must not affect the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch

Result = TypeVar("Result")


def at_thread_counts(call: Callable[[], Result], counts: Iterable[int] = (1, 2, 3)) -> list[Result]:
    """Call a function once for each number of threads, and return the results."""
    before, results = torch.get_num_threads(), []
    try:
        for count in counts:
            torch.set_num_threads(count)
            results.append(call())
    finally:
        torch.set_num_threads(before)
    return results
