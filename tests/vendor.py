"""Whether operators that have a kernel and a CPU library run in the library, in this process."""

from __future__ import annotations

import os

import pytest

import mpsx


def is_preferred() -> bool:
    """As src/vendor/cpu/vendor.cpp decides."""
    return (os.environ.get("MPSX_VENDOR") or ("on" if mpsx.driver()["name"] == "host" else "off")) == "on"


preferred = pytest.mark.skipif(not is_preferred(), reason="about a library that is not preferred here")
