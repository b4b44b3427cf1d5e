#!/usr/bin/env python3
"""Command line of the Metal compiler: translates to C++, flattens sources, lists kernels, and more. See
`python tools/msl.py --help`."""

import sys
from pathlib import Path

# With tools/ on sys.path, `import msl` loads mpsx.msl without importing the package mpsx, which would import torch.
__path__ = [str(Path(__file__).resolve().parent.parent / "python" / "mpsx" / "msl")]

if __name__ == "__main__":
    from msl.cli import main

    sys.exit(main())
