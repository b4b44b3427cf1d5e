#!/usr/bin/env python3
"""Check built wheels before a release: their size, the PyTorch version in their metadata, and their contents.

    python tools/build/check_wheels.py dist
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

LARGEST = 60 * 10**6  # maximum size in bytes
NEEDED = ("mpsx/__init__.py", "mpsx/metal/norm/softmax.metal", "mpsx/metal_stdlib/msl.h",
          "mpsx/strict/mps_operators.txt")  # fmt: skip
SOURCES = (".pyx", ".pxi", ".cpp", ".mm", ".o", ".a")


def problems(wheel: Path) -> list[str]:
    """Return what is wrong with a wheel."""
    found = []
    if wheel.stat().st_size > LARGEST:
        found.append(f"{wheel.stat().st_size / 1e6:.0f} MB, expected at most {LARGEST / 1e6:.0f}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    requirement = re.search(r"^Requires-Dist: torch\s*(\S+)$", metadata, re.MULTILINE)
    bounds = re.findall(r"([<>]=?)2\.(\d+)", requirement[1]) if requirement else []
    minors = {operator: int(minor) for operator, minor in bounds}
    if minors.get("<", 0) != minors.get(">=", 0) + 1:
        found.append("expected a requirement on one minor version of torch, got "
                     f"{requirement[0] if requirement else 'none'}")  # fmt: skip
    found += [f"{name} is missing" for name in NEEDED if name not in names]
    if not any(re.match(r"mpsx/_runtime\..*so$", name) for name in names):
        found.append("the extension module is missing")
    found += [f"unexpected file {name}" for name in names
              if name.endswith(SOURCES) and not name.startswith("mpsx/metal")]  # fmt: skip
    found += [f"unexpected file {name}" for name in names if "libtorch" in name or "libc10" in name]
    return found


def main() -> None:
    """Check all wheels in a folder. Exit with status 1 if one of them has a problem."""
    wheels = sorted(Path(sys.argv[1]).glob("*.whl"))
    if not wheels:
        sys.exit(f"no wheels in {sys.argv[1]}")
    bad = [f"{wheel.name}: {problem}" for wheel in wheels for problem in problems(wheel)]
    for wheel in wheels:
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    sys.exit("\n".join(bad) or 0)


if __name__ == "__main__":
    main()
