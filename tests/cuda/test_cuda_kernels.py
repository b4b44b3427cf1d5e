"""Every kernel on a GPU: the calls of tests/simt/kernel_cases against the CPU, at sizes of threadgroups that leave the
last SIMD group whole and that do not; and under compute-sanitizer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mpsx

CASES = Path(__file__).parents[1] / "simt" / "run_cases.py"
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


def on_gpu() -> bool:
    """Whether the driver in use is cuda."""
    return os.environ.get("MPSX_DRIVER") == "cuda" and mpsx._runtime.driver()["name"] == "cuda"


pytestmark = [pytest.mark.sweep, pytest.mark.skipif(not on_gpu(), reason="needs an NVIDIA GPU and MPSX_DRIVER=cuda")]


def run_cases(path: Path, *before: str, **variables: str) -> str:
    """The output of tests/simt/run_cases.py, which leaves results in the file."""
    arguments = [*before, sys.executable, str(CASES), str(path)] + ([] if before else ["--cpu"])
    environment = {**os.environ, "MPSX_VENDOR": "off", **variables}
    run = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return run.stdout


def difference(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> str:
    """The message of torch.testing about two results."""
    try:
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b.to(a.dtype), equal_nan=True)
    except (AssertionError, ValueError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("threads", ["", "48", "256", "1000"])
def test_values(threads: str, tmp_path: Path) -> None:
    run_cases(tmp_path / "found.pt", MPSX_CUDA_THREADS=threads)
    found = torch.load(tmp_path / "found.pt")
    wrong = {}
    for name, result in found["results"].items():
        if isinstance(result, str):
            wrong[name] = result
        elif name in found["expected"] and (text := difference(result, found["expected"][name])):
            wrong[name] = text
    assert not wrong, f"{len(wrong)} cases:\n" + "\n".join(f"{k}: {v}" for k, v in list(wrong.items())[:20])


@pytest.mark.skipif(not shutil.which("compute-sanitizer"), reason="no compute-sanitizer; CUDA's toolkit has it")
@pytest.mark.parametrize("tool", TOOLS)
def test_sanitizer(tool: str, tmp_path: Path) -> None:
    said = run_cases(tmp_path / "found.pt", "compute-sanitizer", "--tool", tool, MPSX_CUDA_THREADS="48")
    assert re.search(r"SUMMARY: 0 (errors|hazards)", said), said[-4000:]
