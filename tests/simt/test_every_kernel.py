"""Every kernel of the library with real threadgroups: tests of the families, in processes with MPSX_DRIVER=simt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mpsx

TESTS = Path(__file__).resolve().parent.parent
LIBRARY = Path(mpsx.__file__).parent / "lib" / "libmpsx_kernels_simt.so"
# Tests of values, of a size that suits kernels whose every access is checked; their other tests are about what no
# driver changes (forms, errors, accuracy on large tensors, gradients of several operators).
FILES = {
    "test_unary.py": "test_values",
    "test_binary.py": "test_values or test_numbers or test_broadcasting or test_rounding_mode",
}

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="a build without it: tools/dev.py build --simt makes it")
