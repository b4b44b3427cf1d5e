"""Fixtures for tests of the Metal driver on emulated Metal: the toolchain and the test kernels."""

from __future__ import annotations

import os
import platform
import textwrap
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import emulated_metal
from template_process import Template

import mpsx


@pytest.fixture(scope="session")
def toolchain() -> None:
    """Skip the test if there is no Objective-C++ toolchain. If MPSX_CI_REQUIRE_METAL is set, as in CI, fail instead."""
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
    return harness.make_kernels()


@pytest.fixture(scope="session")
def run(toolchain: None) -> Callable[..., str]:
    """Return a function that runs code in a separate process on emulated Metal and returns the output."""
    try:
        environment = emulated_metal.environment(Path(mpsx.__file__).parent)
    except emulated_metal.Unavailable as e:
        pytest.skip(str(e))

    template = Template(environment)  # preloads the emulation

    def run(code: str, **variables: str) -> str:
        done = template.run(harness.PRELUDE + textwrap.dedent(code), environment | variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
