"""The modules beside the tests: readers of Mach-O files, of Objective-C headers and of metal-cpp."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
