"""Prefer programs in this Python's environment (cmake, ninja, ruff) over the system's, even if the environment is not
activated.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def prefer_own_programs() -> None:
    """Prepend the environment's program folder to PATH for this process and its children."""
    own = str(Path(sys.executable).parent)
    others = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != own]
    if sys.prefix != sys.base_prefix or own not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([own, *others])
