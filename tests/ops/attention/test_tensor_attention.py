"""Attention on the tensor tier (MPSX_TIER=tensor), using simt or a GPU driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensor_tier import SEEDS, run_script


@pytest.mark.parametrize("seed", SEEDS)
def test_random_attention(seed: int) -> None:
    """For random sizes, layouts, dtypes, masks and dropout, results and gradients are as accurate as the CPU's."""
    run_script(Path(__file__).with_name("random_attention.py"), seed)
