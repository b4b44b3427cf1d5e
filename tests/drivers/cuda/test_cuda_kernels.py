"""Run the calls in tests/simt/kernel_cases on a GPU, compare the results with the CPU, and check the kernels with
compute-sanitizer.

With some threadgroup sizes, the last SIMD group is only partially filled. The tests are split into parts that can run
in parallel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cuda_check import ROOT, SANITIZER, TOOLS, needs_gpu, needs_sanitizer
from kernel_outcomes import difference, excess

PARTS = 8

pytestmark = [pytest.mark.sweep, needs_gpu]


def run_cases(path: Path, part: int, *before: str, only: str = "", **variables: str) -> tuple[dict, str]:
    """Run tests/simt/run_cases.py, and return its results and its output."""
    arguments = [*before, sys.executable, str(ROOT / "tests" / "simt" / "run_cases.py"), str(path),
                 "--part", f"{part}/{PARTS}", "--only", only, *([] if before else ["--cpu"])]  # fmt: skip
    environment = {**os.environ, "MPSX_VENDOR": "off", **variables}
    run = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    found = torch.load(path)
    print(f"kernels launched: {' '.join(sorted(found['launched']))}")
    return found, run.stdout


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("threads", ["", "48", "256", "1000"])
def test_values(threads: str, part: int, tmp_path: Path) -> None:
    found, _ = run_cases(tmp_path / "found.pt", part, MPSX_CUDA_THREADS=threads)
    check_values(found)


TENSORS = {"only": "tensor tier", "MPSX_TIER": "tensor"}


@pytest.mark.parametrize("part", range(PARTS))
def test_tensor_tier(part: int, tmp_path: Path) -> None:
    found, _ = run_cases(tmp_path / "found.pt", part, **TENSORS)
    check_values(found)
    assert any(name.startswith("matmul_tensor_") for name in found["launched"])


def check_values(found: dict) -> None:
    """Compare the results with the CPU's."""
    wrong = {}
    for name, result in found["results"].items():
        if isinstance(result, str):
            wrong[name] = result
        elif expected := found["expected"].get(name):
            bounds = found["bounds"][name]
            if text := excess(result, expected, bounds) if bounds else difference(result, expected):
                wrong[name] = text
    assert not wrong, f"{len(wrong)} cases:\n" + "\n".join(f"{k}: {v}" for k, v in list(wrong.items())[:20])


@needs_sanitizer
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("tool", TOOLS)
def test_sanitizer(tool: str, part: int, tmp_path: Path) -> None:
    check_sanitizer(*run_cases(tmp_path / "found.pt", part, *SANITIZER, "--tool", tool, MPSX_CUDA_THREADS="48"))


@needs_sanitizer
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("tool", TOOLS)
def test_sanitizer_of_the_tensor_tier(tool: str, part: int, tmp_path: Path) -> None:
    check_sanitizer(*run_cases(tmp_path / "found.pt", part, *SANITIZER, "--tool", tool, **TENSORS))


def check_sanitizer(found: dict, said: str) -> None:
    """Fail if a case failed, or if the sanitizer reports an error or a hazard."""
    wrong = {name: result for name, result in found["results"].items() if isinstance(result, str)}
    lines = said.splitlines()
    known = [line for line, after in zip(lines, [*lines[1:], ""], strict=True)
             if not (line.startswith("case: ") and after.startswith("case: "))]  # fmt: skip
    told = "\n".join(known)
    assert re.search(r"SUMMARY: 0 (errors|hazards)", said) and not wrong, f"{wrong}\n{told[:12000]}"
