"""`python -m mpsx run script.py …` and `run -m module …`: run a program written for PyTorch's mps."""

from __future__ import annotations

import os
import runpy
import sys

from ..device import mps_alias


def run(argv: list[str]) -> None:
    """Run the program in this process, in which `mps` refers to mpsx."""
    if not argv or argv == ["-m"]:
        raise SystemExit("usage: python -m mpsx run script.py [arguments], or run -m module [arguments]")
    mps_alias.enter()
    os.environ[mps_alias.ENVIRONMENT] = "1"
    if argv[0] == "-m":
        sys.argv = argv[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = argv
        sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
        runpy.run_path(argv[0], run_name="__main__")
