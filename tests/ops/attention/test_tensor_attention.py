"""Attention on the tensor tier (MPSX_TIER=tensor), using simt or a GPU driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mpsx

HERE = Path(__file__).resolve().parent
DRIVER = mpsx.driver()["name"]
# The host driver has no tensor tier, so use simt.
TENSORS = {"MPSX_DRIVER": "simt" if DRIVER == "host" else DRIVER, "MPSX_TIER": "tensor"}
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1, 20))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_attention(seed: int) -> None:
    """For random sizes, layouts, dtypes, masks and dropout, results and gradients are as accurate as the CPU's."""
    done = subprocess.run([sys.executable, str(HERE / "random_attention.py"), str(seed)], env=os.environ | TENSORS,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
