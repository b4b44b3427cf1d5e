#!/usr/bin/env python3
"""The Metal Shading Language toolbox: translate to C++, flatten, list. `python tools/msl.py --help`."""

import sys
from pathlib import Path

# With tools/ on sys.path, `import msl` is mpsx.msl without the package around it, and so without torch.
__path__ = [str(Path(__file__).resolve().parent.parent / "python" / "mpsx" / "msl")]

if __name__ == "__main__":
    from msl.cli import main

    sys.exit(main())
