"""Errors raised by kernels: immediately on a synchronous driver, otherwise on the next synchronization."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

import mpsx


def errors_are_deferred() -> bool:
    """Return whether the driver raises errors late, when the failing kernel may already have written valid elements."""
    return mpsx.driver()["asynchronous"]


@contextlib.contextmanager
def raises_after_sync(error: type[Exception] | tuple[type[Exception], ...], match: str) -> Iterator[None]:
    """Like pytest.raises(), but synchronize with the device before leaving the block."""
    with pytest.raises(error, match=match):
        yield
        torch.mpsx.synchronize()
