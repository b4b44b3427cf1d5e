"""Metallibs from modules in AIR's dialect of LLVM IR, assembled by the clang that compiles kernels."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

from mpsx.air.metallib import Function, write
from mpsx.msl import compiler

FOLDER = Path(__file__).parent / "modules"


@functools.cache
def clang() -> list[str]:
    """Return the command that runs clang. Skip the test if kernels are compiled by another compiler."""
    found = compiler.find_compiler()
    if "clang" not in found.description:
        pytest.skip(f"metallibs need clang, not {found.description}")
    return list(found.clang)


def text_of(module: str) -> str:
    """Return the text of a module."""
    return (FOLDER / f"{module}.ll").read_text()


@functools.cache
def assemble(text: str) -> bytes:
    """Return a module's bitcode."""
    command = [*clang(), "-x", "ir", "-", "-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-w", "-o", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


def function_of(text: str) -> Function:
    """Return the kernel of a module as a function of a metallib."""
    name = re.search(r"!0 = !\{ptr @(\w+)", text)[1]
    return Function(name, "kernel", (2, 6), (3, 1), assemble(text))


def metallib(*texts: str) -> bytes:
    """Return a metallib with the kernels of some modules."""
    return write([function_of(text) for text in texts])
