"""Errors that kernels raise. Synchronous drivers raise them immediately, other drivers at the next synchronization."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

import mpsx


def errors_are_deferred() -> bool:
    """Return whether the driver raises errors late, when the kernel may already have written other elements."""
    return mpsx.driver()["asynchronous"]


@contextlib.contextmanager
def raises_after_sync(error: type[Exception] | tuple[type[Exception], ...], match: str) -> Iterator[None]:
    """Like pytest.raises(), but synchronizes with the device at the end of the block."""
    with pytest.raises(error, match=match):
        yield
        torch.mpsx.synchronize()
