#!/usr/bin/env python3
"""The Metal Shading Language toolbox: translate to C++, flatten, list. `python tools/msl.py --help`."""

import sys

from msl.cli import main

if __name__ == "__main__":
    sys.exit(main())
