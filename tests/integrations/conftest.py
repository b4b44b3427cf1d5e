"""Fixtures of tests with other people's libraries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mpsx


@pytest.fixture(autouse=True)
def nothing_falls_back_unseen() -> Iterator[None]:
    """Operators that fall back to the CPU do so without a warning: these tests are about the library's own choices."""
    with mpsx.fallback.using_mode("silent"):
        yield
