"""`python -m mpsx demo` and `python -m mpsx info`."""

from __future__ import annotations

import argparse
import sys

from . import info
from .demo import main as demo


def main(words: list[str] | None = None) -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m mpsx", description="A Metal backend for PyTorch.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="what is installed, which driver is in use, and why Metal is or is not")
    demo.add_arguments(commands.add_parser("demo", help="train a model on the device, beside the CPU"))
    arguments = parser.parse_args(words)
    if arguments.command == "info":
        print(info.report())
        return 0
    return demo.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
