"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import environment
import pytest
import torch

import mpsx
import vendor
from mpsx.shader import kernel_library

environment.prefer_own_programs()
os.environ["MPSX_TUNING"] = "0"  # results do not depend on a file of `python -m mpsx tune`


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Skip kernel tests if a vendor library is preferred. test_vendor_off.py runs them in a separate process."""
    return True if vendor.is_preferred() and collection_path in vendor.KERNEL_TESTS else None


@pytest.fixture
def only_kernels() -> Iterator[None]:
    """Fail if an operator falls back to the CPU or runs in a vendor library."""
    with mpsx.fallback.using_mode("error"), mpsx.profiler.launch_log() as log:
        yield
    assert not [name for name in log if not name.startswith("kernel:")]


@pytest.fixture
def no_fallback() -> Iterator[None]:
    """Turn CPU fallbacks into errors during the test."""
    with mpsx.fallback.using_mode("error"):
        yield


@pytest.fixture(scope="session")
def simt_library() -> Path:
    """Compile the simt driver's kernels before the first test that uses them, because tests have a time limit."""
    return kernel_library.library("simt")


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Seed the generators, so that a test does not depend on the tests that ran before it.

    torch.manual_seed also records the call stack for every other GPU type, which takes a millisecond.
    """
    torch.default_generator.manual_seed(0)
    torch.mpsx.manual_seed(0)


@pytest.fixture(autouse=True)
def fresh_accelerate_state() -> Iterator[None]:
    """Reset accelerate's global state, because an Accelerator rejects options that differ from an earlier one's."""
    yield
    if state := sys.modules.get("accelerate.state"):
        state.AcceleratorState._reset_state(True)


def pytest_configure(config: pytest.Config) -> None:
    """Use one thread per xdist worker, because the workers already occupy every core.

    Processes that tests start use several threads. They share the cores with the other workers, so OpenMP threads must
    sleep while they wait for each other.
    """
    if hasattr(config, "workerinput"):
        torch.set_num_threads(1)
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each xdist worker one part of the tests, so that few workers build the same module's fixtures, and let idle
    workers steal. The default scheduler may assign the last long tests to one worker, while the others are idle."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture
def silent_fallback() -> Iterator[None]:
    """Silence fallback warnings, for tests that only check results."""
    with mpsx.fallback.using_mode("silent"):
        yield


@pytest.fixture
def loud_fallback() -> Iterator[None]:
    """Reset the warnings and enable them, for tests that check fallback warnings."""
    mpsx.fallback.reset()
    with mpsx.fallback.using_mode("warn"):
        yield
