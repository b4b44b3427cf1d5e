"""The commands `python -m mpsx run`, `demo`, `bench`, `tune`, `info`, `shader`, and `doctor`."""

from __future__ import annotations

import argparse
import sys

from .cli import info, run, shader
from .cli.bench import main as bench
from .cli.demo import main as demo
from .cli.doctor import main as doctor
from .cli.tune import main as tune


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["run"]:  # the program parses everything after its own name
        run.run(argv[1:])
        return 0
    parser = argparse.ArgumentParser(prog="python -m mpsx", description="A Metal backend for PyTorch.")
    parser.add_argument("--version", action="version", version=info.version())
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="show versions, the driver in use, and whether Metal is available")
    commands.add_parser("run", help="run a program for mps: run script.py [arguments], or run -m module [arguments]")
    demo.add_arguments(commands.add_parser("demo", help="train a model on the device and compare with the CPU"))
    bench.add_arguments(commands.add_parser("bench", help="measure the speedup over the CPU, and draw a chart"))
    tune.add_arguments(commands.add_parser("tune", help="measure the kernels on this device, and use the fastest ones"))
    shader.add_arguments(commands.add_parser("shader", help="check a Metal source file, list its kernels, run one"))
    doctor.add_arguments(commands.add_parser("doctor", help="check this installation and write a report"))
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:  # parse_args would print the top-level usage
        commands.choices[arguments.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    if arguments.command == "shader":
        return shader.main(arguments)
    if arguments.command == "bench":
        return bench.main(arguments)
    if arguments.command == "tune":
        return tune.main(arguments)
    if arguments.command == "info":
        print(info.report())
        return 0
    return doctor.main(arguments) if arguments.command == "doctor" else demo.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
