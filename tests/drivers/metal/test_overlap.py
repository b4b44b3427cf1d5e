"""Training steps whose independent kernels overlap on the emulated Metal give the results of a serial run.

The emulation runs the kernels between two barriers in a random order. It ends the process if two of them conflict, or
if a kernel accesses memory that its launcher did not declare.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from bench.zoo import ZOO
from harness import HERE, emulated_metal

import mpsx

# Blocks of one size share a buffer, as on a Mac.
CACHED = {"MPSX_METAL_EXACT_BUFFERS": "0", "MPSX_EMULATION_GUARD": "0", "MPSX_EMULATION_DELAY": "0"}


@pytest.fixture(scope="module")
def environment(toolchain: None) -> dict[str, str]:
    os.environ.update(CACHED)
    try:
        return emulated_metal.environment(Path(mpsx.__file__).parent) | {"MPSX_SIMT_SEED": "1"}
    except emulated_metal.Unavailable as e:
        pytest.skip(str(e))
    finally:
        for name in CACHED:
            del os.environ[name]


def train(environment: dict[str, str], *arguments: str, **variables: str) -> dict:
    """Train a model in its own process. Return what it prints."""
    done = subprocess.run([sys.executable, HERE / "training.py", *arguments], env=environment | variables,
                          capture_output=True, text=True, timeout=1200, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


OPTIMIZERS = ("none", "foreach", "fused")


def cases(names: Iterable[str], default: str) -> list:
    """Mark all names but `default` as a sweep."""
    return [pytest.param(name, marks=[] if name == default else pytest.mark.sweep) for name in names]


@pytest.mark.parametrize("optimizer", cases(OPTIMIZERS, "foreach"))
@pytest.mark.parametrize("model", cases(ZOO, "gpt2"))
def test_training_step(environment: dict[str, str], model: str, optimizer: str) -> None:
    overlapped = train(environment, model, optimizer)
    serial = train(environment, model, optimizer, MPSX_METAL_SERIAL="1")
    assert math.isfinite(serial["loss"])
    assert serial["barriers"] == 0
    for name in ("loss", "digest", "dispatches", "chain"):
        assert overlapped[name] == serial[name], name
    # Barriers and command buffers split the step into intervals. A chain has at most one dispatch per interval.
    intervals = overlapped["barriers"] + overlapped["command_buffers"]
    assert overlapped["chain"] <= intervals < overlapped["dispatches"], overlapped


@pytest.mark.sweep
@pytest.mark.parametrize("model", ["resnet50", "bert", "gpt2", "llama"])
def test_chain_of_published_size(environment: dict[str, str], model: str) -> None:
    """Most kernels of AdamW are outside the longest chain of kernels that depend on each other."""
    counts = {optimizer: train(environment, model, optimizer, "--count") for optimizer in OPTIMIZERS}
    print(model, counts)
    chain = counts["none"]["chain"]
    assert chain < 0.75 * counts["none"]["dispatches"]
    assert counts["foreach"]["chain"] <= chain + 5
    assert counts["fused"]["chain"] <= chain + 1
