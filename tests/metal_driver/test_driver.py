"""The driver's own .mm files, compiled for Linux and run on the emulated Metal, without torch."""

from __future__ import annotations

import re
from pathlib import Path

import harness
import pytest
from harness import HERE, run_cases

SOURCES = "".join(path.read_text() for path in HERE.glob("cases_*.cpp"))
CASES = set(re.findall(r"^(?:BARE_)?CASE\((\w+)\)", SOURCES, re.MULTILINE))


@pytest.fixture(scope="module")
def program(toolchain: None) -> Path:
    """The test program."""
    return harness.build_program()


def test_driver(program: Path, kernels: Path) -> None:
    """Every case passes, and none leaves an object behind."""
    done = run_cases(program, kernels)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(done.stdout.split()) == CASES
