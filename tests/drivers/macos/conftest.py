"""Make this folder's readers of Mach-O files, Objective-C headers and metal-cpp importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
