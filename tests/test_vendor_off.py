"""tests/vendor_off in a process where no vendor's library is preferred, and the variable that says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FILES = sorted(path.name for path in (HERE / "vendor_off").glob("test_*.py"))
SCRIPT = """
import torch, mpsx
x = torch.ones(20, 20, device="mpsx")
with mpsx.profiler.launch_log() as log:
    torch.mm(x, x)
print(log)
"""


def run(*command: str, timeout: float = 900, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python process with these variables of the environment; empty ones are not set."""
    environment = {k: v for k, v in (os.environ | variables).items() if v}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False,
                          timeout=timeout)  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_file(file: str) -> None:
    done = run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / "vendor_off" / file),
               MPSX_VENDOR="off", MPSX_DRIVER="host")  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_explicit_attention() -> None:
    """The explicit operator's own cases, which on a machine with a vendor's library do not meet the kernels."""
    tests = str(HERE / "test_explicit_ops.py")
    done = run(
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        tests,
        "-k",
        "attention",
        MPSX_VENDOR="off",
        MPSX_DRIVER="host",
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_the_variable() -> None:
    assert "'vendor:aten::mm.out'" in run("-c", SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="").stdout
    assert "'vendor:aten::mm.out'" in run("-c", SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="on").stdout
    assert "'kernel:matmul_f32'" in run("-c", SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="off").stdout
    wrong = run("-c", SCRIPT, MPSX_DRIVER="host", MPSX_VENDOR="maybe")
    assert wrong.returncode
    assert 'MPSX_VENDOR: expected "on" or "off", got "maybe"' in wrong.stderr
