"""Helpers and skip markers for tests that need an NVIDIA GPU."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import mpsx

ROOT = Path(__file__).parents[3]
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
# Give each tensor its own allocation, so that compute-sanitizer detects accesses just past the end.
SANITIZER = ["env", "MPSX_CUDA_EXACT_BUFFERS=1", "MPSX_CUDA_LINE_INFO=1", "compute-sanitizer",
             "--show-backtrace=device", "--print-limit=30"]  # fmt: skip


def _on_gpu() -> bool:
    return os.environ.get("MPSX_DRIVER") == "cuda" and mpsx._runtime.driver()["name"] == "cuda"


needs_gpu = pytest.mark.skipif(not _on_gpu(), reason="needs an NVIDIA GPU and MPSX_DRIVER=cuda")
needs_sanitizer = pytest.mark.skipif(not shutil.which("compute-sanitizer"),
                                     reason="needs compute-sanitizer from the CUDA toolkit")  # fmt: skip
