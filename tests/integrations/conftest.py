"""Fixtures for tests with third-party libraries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mpsx


@pytest.fixture(autouse=True)
def allow_fallbacks() -> Iterator[None]:
    """Silence fallback warnings, because the tests do not choose the operators that the libraries call."""
    with mpsx.fallback.using_mode("silent"):
        yield
