"""Shared by the tests that need a GPU."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import mpsx

ROOT = Path(__file__).parents[2]
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
# Every tensor is an allocation of its own, watched to the byte.
SANITIZER = ["env", "MPSX_CUDA_EXACT_BUFFERS=1", "compute-sanitizer", "--show-backtrace=device", "--print-limit=30"]


def _on_gpu() -> bool:
    return os.environ.get("MPSX_DRIVER") == "cuda" and mpsx._runtime.driver()["name"] == "cuda"


needs_gpu = pytest.mark.skipif(not _on_gpu(), reason="needs an NVIDIA GPU and MPSX_DRIVER=cuda")
needs_sanitizer = pytest.mark.skipif(not shutil.which("compute-sanitizer"),
                                     reason="no compute-sanitizer; CUDA's toolkit has it")  # fmt: skip
