"""With MPSX_VENDOR=off, run the tests of kernels that vendor libraries replace on the host driver.

To run them directly, use MPSX_VENDOR=off python -m pytest tests/ops/matmul, or MPSX_DRIVER=simt python -m pytest ….
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vendor import KERNEL_TESTS

HERE = Path(__file__).resolve().parent
SCRIPT = """
import torch, mpsx
x = torch.ones(20, 20, device="mpsx")
with mpsx.profiler.launch_log() as log:
    torch.mm(x, x)
print(log)
"""


def run(*command: str, timeout: float = 900, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with environment variables. A variable with an empty value is removed."""
    environment = {k: v for k, v in (os.environ | variables).items() if v}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False,
                          timeout=timeout)  # fmt: skip


def run_tests(*arguments: str) -> None:
    done = run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments, MPSX_VENDOR="off", MPSX_DRIVER="host")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("path", KERNEL_TESTS, ids=lambda path: path.stem)
def test_kernels(path: Path) -> None:
    run_tests(str(path))


def test_explicit_attention() -> None:
    """Without MPSX_VENDOR=off, the explicit attention operator would use the vendor library."""
    run_tests(str(HERE / "explicit" / "test_explicit_ops.py"), "-k", "attention")


def test_values_of_mpsx_vendor() -> None:
    assert "'vendor:aten::mm.out'" in run("-c", SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="").stdout
    assert "'vendor:aten::mm.out'" in run("-c", SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="on").stdout
    assert "'kernel:matmul_f32'" in run("-c", SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="off").stdout
    wrong = run("-c", SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="maybe")
    assert wrong.returncode
    assert 'MPSX_VENDOR: expected "on" or "off", got "maybe"' in wrong.stderr
