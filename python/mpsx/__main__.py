"""`python -m mpsx run`, `demo`, `info`, `shader` and `doctor`."""

from __future__ import annotations

import argparse
import sys

from .cli import info, shader
from .cli.demo import main as demo
from .cli.doctor import main as doctor
from .device import mps_alias


def main(words: list[str] | None = None) -> int:
    """The command line; the exit status."""
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["run"] and words[1:2] not in (["-h"], ["--help"]):  # the rest is the program's own
        mps_alias.run(words[1:])
        return 0
    parser = argparse.ArgumentParser(prog="python -m mpsx", description="A Metal backend for PyTorch.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="what is installed, which driver is in use, and why Metal is or is not")
    commands.add_parser("run", help="run a program for mps: run script.py [arguments], or run -m module [arguments]")
    demo.add_arguments(commands.add_parser("demo", help="train a model on the device, beside the CPU"))
    shader.add_arguments(commands.add_parser("shader", help="check a Metal source file, list and run its kernels"))
    doctor.add_arguments(commands.add_parser("doctor", help="check this installation, and write a report for an issue"))
    arguments = parser.parse_args(words)
    if arguments.command == "shader":
        return shader.main(arguments)
    if arguments.command == "info":
        print(info.report())
        return 0
    return doctor.main(arguments) if arguments.command == "doctor" else demo.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
