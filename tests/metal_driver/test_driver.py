"""The driver's own .mm files, compiled for Linux and run on the emulated Metal, without torch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import HERE, emulated_metal, run_cases

CASES = re.findall(r"^(?:BARE_)?CASE\((\w+)\)", (HERE / "driver_test.cpp").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def program(toolchain: None) -> Path:
    """The test program."""
    return emulated_metal.build_program(HERE / "driver_test.cpp")


def test_driver(program: Path, kernels: Path) -> None:
    """Every case passes, and none leaves an object behind."""
    done = run_cases(program, kernels)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == CASES
