"""Kernels may use any name, even one that generated entry points use for their own variables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reserved_names import SOURCES, expected


@pytest.mark.parametrize("name", SOURCES)
def test_names_of_entry_points(name: str, kernels, tmp_path: Path) -> None:
    path = tmp_path / "names.metal"
    path.write_text(SOURCES[name])
    driver = kernels(path, 1)
    for kernel, want in expected(SOURCES[name]):
        x = driver.memory(np.arange(4, dtype=np.float32))
        assert driver.run(kernel, x, grid=1, group=4) == ""
        assert x.get().tolist() == want, kernel
