#!/usr/bin/env python3
"""Stands for Metal's compiler where Metal is emulated: `emulated_metal_compiler.py in.metal out.so` makes a library of
translated kernels."""

import sys
from pathlib import Path

from emulated_metal import kernel_library
from msl.source import MslError

if __name__ == "__main__":
    try:
        kernel_library(Path(sys.argv[1]), Path(sys.argv[2]), keep=False)
    except (RuntimeError, MslError) as error:
        sys.exit(str(error))
