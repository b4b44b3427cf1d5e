"""Whether operators that have a kernel and a CPU library run in the library, in this process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mpsx

# Tests of kernels that a vendor's library replaces on the host driver.
KERNEL_TESTS = sorted(path for path in (Path(__file__).resolve().parents[1] / "ops").glob("*/test_*.py")
                      if 'usefixtures("only_kernels")' in path.read_text())  # fmt: skip


def is_preferred() -> bool:
    """As src/vendor/cpu/vendor.cpp decides."""
    return (os.environ.get("MPSX_VENDOR") or ("on" if mpsx.driver()["name"] == "host" else "off")) == "on"


preferred = pytest.mark.skipif(not is_preferred(), reason="about a library that is not preferred here")
