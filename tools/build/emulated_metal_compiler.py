#!/usr/bin/env python3
"""Stand-in for Metal's compiler: `emulated_metal_compiler.py in.metal out.so` translates and compiles kernels.

MPSX_EMULATION_KEEP is a folder in which libraries are cached across processes, as macOS does.
"""

import os
import shutil
import sys
from pathlib import Path

from emulated_metal import digest, kernel_library
from msl.source import MslError

if __name__ == "__main__":
    try:
        source, target = Path(sys.argv[1]), Path(sys.argv[2])
        if folder := os.environ.get("MPSX_EMULATION_KEEP"):
            shutil.copyfile(kernel_library(source, Path(folder) / f"{digest(source.read_text())}.so"), target)
        else:
            kernel_library(source, target, keep=False)
    except (RuntimeError, MslError) as error:
        sys.exit(str(error))
