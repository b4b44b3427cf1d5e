"""Let tests import the readers of Mach-O files, Objective-C headers and metal-cpp in this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
