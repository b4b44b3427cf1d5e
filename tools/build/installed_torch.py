"""Find the installed torch without importing it, and print `version;folder`.

Search sys.path first, then the environment's site-packages, which pip's build isolation removes from sys.path.
"""

from __future__ import annotations

import importlib.metadata
import sys
import sysconfig
from pathlib import Path


def find() -> tuple[str, Path] | None:
    """Return torch's version without the local version label, and torch's folder."""
    environment = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    for path in (sys.path, environment):
        for found in importlib.metadata.distributions(name="torch", path=path):
            folder = Path(str(found.locate_file("torch")))
            if (folder / "include").is_dir():
                return found.version.split("+")[0], folder
    return None


if __name__ == "__main__":
    found = find()
    if found is None:
        sys.exit("torch is not installed")
    print(";".join(map(str, found)), end="")
