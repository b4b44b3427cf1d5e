"""Kernels in place of the vendor's libraries: MPSX_VENDOR=off, or a driver other than `host`.

tests/test_vendor_off.py runs this folder in a process of its own; by hand:
MPSX_VENDOR=off python -m pytest tests/vendor_off, or MPSX_DRIVER=simt python -m pytest tests/vendor_off.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mpsx
import vendor

if vendor.is_preferred():
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def only_kernels() -> Iterator[None]:
    """No operator falls back, and none runs in a vendor's library."""
    with mpsx.fallback.using_mode("error"), mpsx.profiler.launch_log() as log:
        yield
    assert not [name for name in log if not name.startswith("kernel:")]
