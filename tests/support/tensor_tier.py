"""Compare random calls on the tensor tier (MPSX_TIER=tensor) with the CPU, in a child process."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import mpsx

DRIVER = mpsx.driver()["name"]
# The host driver has no tensor tier, so use simt.
WITH_SIMD_GROUPS = {"MPSX_DRIVER": "simt" if DRIVER == "host" else DRIVER}
TENSORS = WITH_SIMD_GROUPS | {"MPSX_TIER": "tensor"}
if DRIVER == "metal":
    TENSORS["MPSX_EMULATION_FAIL"] = "m5:0:1000000"  # the emulated Metal acts as an M5 with macOS 26.2
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1, 20))]


def run_script(script: Path, seed: int, variables: dict[str, str] = TENSORS) -> None:
    """Run a script that calls main(), on the tensor tier unless the environment variables say otherwise."""
    done = subprocess.run([sys.executable, str(script), str(seed)], env=os.environ | variables, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def main(compare: Callable[[random.Random], str], kernels: list[str], count: int) -> None:
    """Run the comparisons of a script with the arguments SEED [COUNT]. For each prefix in `kernels`, some of them must
    launch a kernel. `compare` checks one random call, and returns a description of it. With the first seed, which the
    default run uses, the slow simt driver does half of the calls."""
    seed = int(sys.argv[1])
    if len(sys.argv) > 2:
        count = int(sys.argv[2])
    elif DRIVER == "simt" and seed == 0:
        count //= 2
    mpsx.fallback.set_mode("error")
    torch.manual_seed(seed)
    choice = random.Random(seed)
    for _ in range(count):
        print(compare(choice), flush=True)
    launched = {row.name for row in mpsx.profiler.rows() if row.route == "native"}
    for prefix in kernels:
        assert any(name.startswith(prefix) for name in launched), (prefix, launched)
