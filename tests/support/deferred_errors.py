"""Errors that kernels find: raised at once on a synchronous driver, else when somebody waits for the device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

import mpsx


def errors_are_deferred() -> bool:
    """Whether an error is known only after the work that follows it, so that places in range may have been written."""
    return mpsx.driver()["asynchronous"]


@contextlib.contextmanager
def raises_after_sync(error: type[Exception] | tuple[type[Exception], ...], match: str) -> Iterator[None]:
    """pytest.raises() that waits for the device before it judges."""
    with pytest.raises(error, match=match):
        yield
        torch.mpsx.synchronize()
