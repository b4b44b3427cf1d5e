"""Build metallibs for tests from LLVM IR in AIR's dialect, using the same clang that compiles kernels."""

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
    """Return the command line of clang. Skip the test if kernels are compiled with a different compiler."""
    found = compiler.find_compiler()
    if "clang" not in found.description:
        pytest.skip(f"metallibs need clang, not {found.description}")
    return list(found.clang)


def text_of(module: str) -> str:
    return (FOLDER / f"{module}.ll").read_text()


@functools.cache
def assemble(text: str) -> bytes:
    """Assemble a module, and return its bitcode."""
    command = [*clang(), "-x", "ir", "-", "-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-w", "-o", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


def function_of(text: str) -> Function:
    """Return a metallib function that contains the module's kernel."""
    name = re.search(r"!0 = !\{ptr @(\w+)", text)[1]
    return Function(name, "kernel", (2, 6), (3, 1), assemble(text))


def metallib(*texts: str) -> bytes:
    """Return a metallib that contains the modules' kernels."""
    return write([function_of(text) for text in texts])
