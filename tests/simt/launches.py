"""A pytest plugin for processes of their own: leaves the names of the kernels that ran in the file $MPSX_LAUNCHED."""

import os
from pathlib import Path

import mpsx


def pytest_sessionfinish() -> None:
    """Writes what this process has launched."""
    names = sorted(row.name for row in mpsx.profiler.rows() if row.route == "native")
    Path(os.environ["MPSX_LAUNCHED"]).write_text("\n".join(names))
