"""`python -m mpsx run script.py …` and `run -m module …`: run a program written for PyTorch's mps."""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys

from ..device import mps_alias


def parser() -> argparse.ArgumentParser:
    """Return the parser for the options before the program's name."""
    made = argparse.ArgumentParser(
        prog="python -m mpsx run",
        usage="python -m mpsx run [-h] [--strict[=report]] [--json FILE] script.py [arguments]\n"
              "       python -m mpsx run [-h] [--strict[=report]] [--json FILE] -m module [arguments]",
        description="Run a program written for PyTorch's mps device, with mps meaning mpsx, in it and in the processes "
                    "that it starts.",
    )  # fmt: skip
    made.add_argument("--strict", nargs="?", const="error", choices=("error", "report"), metavar="report",
                      help="stop at the first call that PyTorch's MPS rejects; with =report, list all of them at exit")
    made.add_argument("--json", metavar="FILE", help="with --strict=report: also write the list to FILE")
    made.add_argument("-m", dest="module", metavar="module", help="run a module, like python -m")
    made.add_argument("program", nargs="*", metavar="script.py [arguments]", help="the program and its arguments")
    return made


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Split the command line into the options for `run` and the program with its arguments."""
    i = 0
    while i < len(argv) and argv[i].startswith("-") and argv[i] != "-m":
        i += 2 if argv[i] == "--json" else 1
    return argv[:i], argv[i:]


def run(argv: list[str]) -> None:
    """Run the program in this process, with `mps` meaning mpsx."""
    ours, program = split(argv)
    options = parser()
    chosen = options.parse_args(ours)
    if chosen.json and chosen.strict != "report":
        options.error("--json needs --strict=report")
    is_module = program[:1] == ["-m"]
    program = program[1:] if is_module else program
    if not program:
        options.error("expected a script, or -m and a module")
    if not is_module and not os.path.exists(program[0]):
        options.exit(2, f"{options.prog}: cannot open {program[0]!r}: no such file\n")
    if chosen.strict:
        os.environ["MPSX_STRICT"] = chosen.strict
        os.environ.setdefault("MPSX_VENDOR", "off")  # run the same kernels as Metal
        if chosen.json:
            os.environ["MPSX_STRICT_REPORT"] = os.path.abspath(chosen.json)
        from .. import strict

        strict.from_environment(os.environ)
    mps_alias.enter()
    os.environ[mps_alias.ENVIRONMENT] = "1"
    sys.argv = program
    if is_module:
        sys.path[0] = os.getcwd()
        _check_module(program[0])
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")


def _check_module(name: str) -> None:
    """If the module does not exist, exit with the same message as `python -m`."""
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # a parent package does not exist
        found = None
    if found is None:
        sys.exit(f"python -m mpsx run: no module named {name}")
