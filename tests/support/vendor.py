"""Determine whether this process prefers vendor libraries over kernels, and which tests that affects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mpsx

# Files that test kernels. On the host driver, a vendor library replaces these kernels.
KERNEL_TESTS = sorted(path for path in (Path(__file__).resolve().parents[1] / "ops").glob("*/test_*.py")
                      if 'usefixtures("only_kernels")' in path.read_text())  # fmt: skip


def is_preferred() -> bool:
    """Return whether vendor libraries are preferred, by the same rules as src/vendor/cpu/vendor.cpp."""
    return (os.environ.get("MPSX_VENDOR") or ("on" if mpsx.driver()["name"] == "host" else "off")) == "on"


preferred = pytest.mark.skipif(not is_preferred(), reason="the vendor library is not preferred")
