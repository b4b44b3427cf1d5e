"""Run the fuzzer with a fixed seed, or with a new seed each time in the sweep."""

from __future__ import annotations

import time

import pytest

from fuzz.__main__ import fuzz


@pytest.mark.parametrize(
    ("seed", "groups"), [(1, 25), pytest.param(int(time.time()), 10**6, marks=pytest.mark.sweep)], ids=["fixed", "new"]
)
def test_fuzz(seed: int, groups: int) -> None:
    report = fuzz(60, seed, ".", None, 1, groups)
    print(f"seed {seed}: {report.cases} cases")
    assert report.cases
    assert report.findings == [], f"seed {seed}"
