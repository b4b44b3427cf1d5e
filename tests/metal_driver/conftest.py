"""The Metal driver on an emulated Metal: what has to be there, and the kernels that tests run."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import harness
import pytest
from harness import emulated_metal


@pytest.fixture(scope="session")
def toolchain() -> None:
    """The tools that Objective-C++ needs; CI installs them and sets MPSX_CI_REQUIRE_METAL, to skip nothing."""
    try:
        if platform.system() != "Linux":
            raise emulated_metal.Unavailable("Metal is emulated on Linux alone")
        emulated_metal.toolchain()
    except emulated_metal.Unavailable as e:
        if os.environ.get("MPSX_CI_REQUIRE_METAL"):
            raise
        pytest.skip(str(e))


@pytest.fixture(scope="session")
def kernels(toolchain: None) -> Path:
    """The folder with the test kernels."""
    return harness.make_kernels()
