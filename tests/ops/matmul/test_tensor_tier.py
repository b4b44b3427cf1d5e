"""Matmuls on the tensor tier (MPSX_TIER=tensor), using simt or a GPU driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import run_in_subprocess

import mpsx

HERE = Path(__file__).resolve().parent
DRIVER = mpsx.driver()["name"]
# The host driver has no tensor tier, so use simt.
TENSORS = {"MPSX_DRIVER": "simt" if DRIVER == "host" else DRIVER, "MPSX_TIER": "tensor"}
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1, 20))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_operands(seed: int) -> None:
    """For random sizes, layouts, dtypes, batches and epilogues, the results are as accurate as the CPU's."""
    done = subprocess.run([sys.executable, str(HERE / "random_gemms.py"), str(seed)], env=os.environ | TENSORS,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_tier() -> None:
    done = run_in_subprocess("import mpsx; x = torch.ones(4, 4, device='mpsx'); x @ x", MPSX_TIER="nax")
    assert 'MPSX_TIER: expected simdgroup or tensor, got "nax"' in done.stderr


def test_driver_without_tensors() -> None:
    code = "import mpsx; x = torch.ones(4, 4, device='mpsx'); x @ x"
    done = run_in_subprocess(code, MPSX_TIER="tensor", MPSX_DRIVER="host", MPSX_VENDOR="off")
    assert "MPSX_TIER=tensor: expected a driver with Metal 4's tensors" in done.stderr
