"""Convolutions on the tensor tier (MPSX_TIER=tensor), using simt or a GPU driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensor_tier import DRIVER, SEEDS, run_script

pytestmark = pytest.mark.skipif(DRIVER == "metal", reason="Metal uses matmul2d fragments for convolutions")


@pytest.mark.parametrize("seed", SEEDS)
def test_random_convolutions(seed: int) -> None:
    """With random shapes, strides, layouts and types, forward and backward are as accurate as on the CPU."""
    run_script(Path(__file__).with_name("random_convs.py"), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_convolutions_in_place(seed: int) -> None:
    """Convolutions of channels-last tensors, which are not copied, are as accurate as on the CPU."""
    run_script(Path(__file__).with_name("random_in_place.py"), seed)


def test_packed_copies() -> None:
    """Both gradients share a copy of the output gradient, and channels-last tensors are read in place."""
    run_script(Path(__file__).with_name("packed_copies.py"), 0)
