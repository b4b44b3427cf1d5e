"""Fixtures for the Metal driver on the emulated Metal: the toolchain, and the kernels that tests run."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import harness
import pytest
from harness import emulated_metal


@pytest.fixture(scope="session")
def toolchain() -> None:
    """Skip tests without an Objective-C++ toolchain, or fail if MPSX_CI_REQUIRE_METAL is set, as in CI."""
    try:
        if platform.system() != "Linux":
            raise emulated_metal.Unavailable("Metal is emulated only on Linux")
        emulated_metal.toolchain()
    except emulated_metal.Unavailable as e:
        if os.environ.get("MPSX_CI_REQUIRE_METAL"):
            raise
        pytest.skip(str(e))


@pytest.fixture(scope="session")
def kernels(toolchain: None) -> Path:
    """Build the test kernels and return their folder."""
    return harness.make_kernels()
