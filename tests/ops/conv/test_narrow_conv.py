"""Convolutions with few output channels, using simt or a GPU driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensor_tier import SEEDS, WITH_SIMD_GROUPS, run_script


@pytest.mark.parametrize("seed", SEEDS)
def test_random_convolutions(seed: int) -> None:
    """With random shapes, strides and layouts, forward and backward are as accurate as on the CPU."""
    run_script(Path(__file__).with_name("random_narrow.py"), seed, WITH_SIMD_GROUPS)
