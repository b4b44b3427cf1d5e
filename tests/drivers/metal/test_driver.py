"""Compile the Metal driver for Linux, without torch, and test it on emulated Metal."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import harness
import pytest
from harness import HERE, run_cases

SOURCES = "".join(path.read_text() for path in HERE.glob("cases_*.cpp"))
CASES = set(re.findall(r"^(?:BARE_)?CASE\((\w+)\)", SOURCES, re.MULTILINE))


@pytest.fixture(scope="module")
def program(toolchain: None) -> Path:
    return harness.build_program()


def test_driver(program: Path, kernels: Path) -> None:
    """Every case passes and leaks no Metal objects."""
    done = run_cases(program, kernels)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(done.stdout.split()) == CASES


def test_serial_encoders(program: Path, kernels: Path) -> None:
    """MPSX_METAL_SERIAL=1 uses serial encoders, in which barriers are an error, and Metal's hazard tracking."""
    cases = ["runs_a_kernel", "preserves_order", "orders_command_buffers", "frees_memory_in_use", "times_events",
             "orders_tensors_with_other_work", "runs_on_many_threads", "detects_accesses_outside_the_declared_range"]
    done = run_cases(program, kernels, *cases, environment={"MPSX_METAL_SERIAL": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(done.stdout.split()) == set(cases) <= CASES


def test_processes_share_the_cache(program: Path, kernels: Path, tmp_path: Path) -> None:
    """Several processes store pipelines at the same time. The archive must be complete at all times, and no temporary
    file may remain."""
    environment = dict(os.environ, MPSX_CACHE_DIR=str(tmp_path))
    command = [program, kernels, "runs_a_kernel", "covers_the_grid", "preserves_order"]
    for _ in range(3):
        running = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for _ in range(4)]
        assert [process.wait(timeout=240) for process in running] == [0] * 4
        (file,) = (tmp_path / "metal").iterdir()
        first, *names = file.read_text().split("\n")
        assert first == "emulated archive" and {"add", "positions", "advance"} <= set(names)
