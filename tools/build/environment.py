"""Puts the programs of this Python's environment (cmake, ninja, ruff) before the system's, also where the environment
was not activated: its folder comes first in PATH, where child processes look too."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def prefer_own_programs() -> None:
    """Changes PATH of this process and of those that it starts."""
    own = str(Path(sys.executable).parent)
    others = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != own]
    if sys.prefix != sys.base_prefix or own not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([own, *others])
