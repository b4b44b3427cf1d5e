"""Fixtures every test may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import environment
import pytest
import torch

import mpsx
import vendor
from mpsx.shader import kernel_library

environment.prefer_own_programs()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Where a vendor's library is preferred, test_vendor_off.py runs the tests of kernels in another process."""
    return True if vendor.is_preferred() and collection_path in vendor.KERNEL_TESTS else None


@pytest.fixture
def only_kernels() -> Iterator[None]:
    """No operator falls back, and none runs in a vendor's library."""
    with mpsx.fallback.using_mode("error"), mpsx.profiler.launch_log() as log:
        yield
    assert not [name for name in log if not name.startswith("kernel:")]


@pytest.fixture
def no_fallback() -> Iterator[None]:
    """An operator that falls back to the CPU is an error for the length of the test."""
    with mpsx.fallback.using_mode("error"):
        yield


@pytest.fixture(scope="session")
def simt_library() -> Path:
    """The kernels of the simt driver, compiled now if they are not yet, before a test with a time limit uses them."""
    return kernel_library.library("simt")


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test starts from one state of the generators, so that its outcome does not depend on its neighbours.
    torch.manual_seed would also note the call stack for every other kind of GPU, which takes a millisecond."""
    torch.default_generator.manual_seed(0)
    torch.mpsx.manual_seed(0)


def pytest_configure(config: pytest.Config) -> None:
    """One thread a worker: the workers already use every core."""
    if hasattr(config, "workerinput"):
        torch.set_num_threads(1)


@pytest.fixture
def silent_fallback() -> Iterator[None]:
    """For tests of results, which do not care where they were computed."""
    with mpsx.fallback.using_mode("silent"):
        yield


@pytest.fixture
def loud_fallback() -> Iterator[None]:
    """For tests of warnings: nothing has been warned about yet."""
    mpsx.fallback.reset()
    with mpsx.fallback.using_mode("warn"):
        yield
