"""Convolutions with few output channels, using simt or a GPU driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tensor_tier import DRIVER, SEEDS


@pytest.mark.parametrize("seed", SEEDS)
def test_random_convolutions(seed: int) -> None:
    """With random shapes, strides and layouts, forward and backward are as accurate as on the CPU."""
    script = Path(__file__).with_name("random_narrow.py")
    environment = os.environ | {"MPSX_DRIVER": "simt" if DRIVER == "host" else DRIVER}
    done = subprocess.run([sys.executable, str(script), str(seed)], env=environment, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
