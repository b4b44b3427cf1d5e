"""A pytest plugin that splits the tests: MPSX_TEST_PART=3/12 runs every twelfth test, starting with the fourth."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, parts = map(int, os.environ["MPSX_TEST_PART"].split("/"))
    config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % parts != part])
    items[:] = items[part::parts]
