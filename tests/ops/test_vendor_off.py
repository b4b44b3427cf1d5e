"""With MPSX_VENDOR=off, run the tests of kernels that vendor libraries replace on the host driver.

To run them directly, use MPSX_VENDOR=off python -m pytest tests/ops/matmul, or MPSX_DRIVER=simt python -m pytest ….
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from processes import run_in_subprocess

from vendor import KERNEL_TESTS

HERE = Path(__file__).resolve().parent
SCRIPT = """
import mpsx
x = torch.ones(20, 20, device="mpsx")
with mpsx.profiler.launch_log() as log:
    torch.mm(x, x)
print(log)
"""


def run_tests(*arguments: str) -> None:
    """Run pytest in a separate process."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, env=os.environ | {"MPSX_VENDOR": "off", "MPSX_DRIVER": "host"}, capture_output=True,
                          text=True, check=False, timeout=900)  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_kernels() -> None:
    run_tests(*map(str, KERNEL_TESTS))


def test_explicit_attention() -> None:
    """Without MPSX_VENDOR=off, the explicit attention operator would use the vendor library."""
    run_tests(str(HERE / "explicit" / "test_explicit_ops.py"), "-k", "attention")


def test_values_of_mpsx_vendor() -> None:
    assert "'vendor:aten::mm.out'" in run_in_subprocess(SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="").stdout
    assert "'vendor:aten::mm.out'" in run_in_subprocess(SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="on").stdout
    assert "'kernel:matmul_f32'" in run_in_subprocess(SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="off").stdout
    wrong = run_in_subprocess(SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="maybe")
    assert wrong.returncode
    assert 'MPSX_VENDOR: expected "on" or "off", got "maybe"' in wrong.stderr
