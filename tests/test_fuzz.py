"""Half a minute of the fuzzer: the same cases every time, and then new ones."""

from __future__ import annotations

import time

import pytest
from fuzz.__main__ import fuzz


@pytest.mark.parametrize("seed", [1, int(time.time())], ids=["fixed", "fresh"])
def test_fuzz(seed: int) -> None:
    report = fuzz(15, seed, ".", None, jobs=1)
    print(f"seed {seed}: {report.cases} cases")
    assert report.cases
    assert report.findings == [], f"seed {seed}"
