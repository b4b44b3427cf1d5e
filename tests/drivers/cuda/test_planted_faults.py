"""On a GPU, compute-sanitizer detects the faults in tests/simt/faults and reports the right lines of Metal source."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from cuda_check import ROOT, SANITIZER, needs_gpu, needs_sanitizer

FAULTS = ROOT / "tests" / "simt" / "faults"
PLANTED = [
    ("memcheck", "bounds", "read_past_end", "y, x"),
    ("memcheck", "bounds", "write_past_end", "y, x"),
    ("memcheck", "bounds", "read_far_away", "y, x"),
    ("memcheck", "bounds", "argument_is_null", "y, x[:0]"),
    ("racecheck", "races", "read_of_adjacent_element", "y"),
    ("racecheck", "races", "barrier_missing_in_loop", "y"),
    ("synccheck", "barriers", "barrier_in_branch", "y"),
    ("initcheck", "bounds", "argument_is_null", "y, torch.empty(64, device='mpsx')"),
]
CALL = """
import torch, mpsx
x, y = torch.ones(64).to('mpsx'), torch.zeros(64).to('mpsx')
library = mpsx.compile_shader(open({path!r}).read())
library.{kernel}({arguments}, threads=64, group_size=64)
torch.mpsx.synchronize()
"""

pytestmark = [pytest.mark.sweep, needs_gpu, needs_sanitizer]


@pytest.mark.parametrize(("tool", "file", "kernel", "arguments"), PLANTED)
def test_fault(tool: str, file: str, kernel: str, arguments: str) -> None:
    path = FAULTS / f"{file}.metal"
    lines = [i for i, line in enumerate(path.read_text().splitlines(), 1) if re.search(rf"// fault: {kernel}\b", line)]
    code = CALL.format(path=str(path), kernel=kernel, arguments=arguments)
    run = subprocess.run([*SANITIZER, "--tool", tool, sys.executable, "-c", code],
                         capture_output=True, text=True, check=False, timeout=300)  # fmt: skip
    said = run.stdout + run.stderr
    assert not re.search(r"SUMMARY: 0 (errors|hazards)", said), said[-4000:]
    named = {int(n) for n in re.findall(r"program_source(?:\.metal)?:(\d+)", said)}
    assert named & set(lines), f"expected lines {lines}, got {sorted(named)}:\n{said[-4000:]}"
