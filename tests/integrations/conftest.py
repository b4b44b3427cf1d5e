"""Fixtures for tests with third-party libraries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mpsx


@pytest.fixture(autouse=True)
def allow_fallbacks() -> Iterator[None]:
    """Silence fallback warnings: the libraries decide which operators to call, not the tests."""
    with mpsx.fallback.using_mode("silent"):
        yield
