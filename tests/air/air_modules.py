"""Build metallibs for tests from LLVM IR modules in AIR's dialect. The clang that compiles kernels assembles them."""

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
    """Return the command for clang, or skip the test if a different compiler is used for kernels."""
    found = compiler.find_compiler()
    if "clang" not in found.description:
        pytest.skip(f"metallibs need clang, not {found.description}")
    return list(found.clang)


def text_of(module: str) -> str:
    return (FOLDER / f"{module}.ll").read_text()


@functools.cache
def assemble(text: str) -> bytes:
    """Assemble a module and return its bitcode."""
    command = [*clang(), "-x", "ir", "-", "-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-w", "-o", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


def function_of(text: str) -> Function:
    """Return a metallib function that contains the kernel of a module."""
    name = re.search(r"!0 = !\{ptr @(\w+)", text)[1]
    return Function(name, "kernel", (2, 6), (3, 1), assemble(text))


def metallib(*texts: str) -> bytes:
    """Return a metallib that contains the kernels of the given modules."""
    return write([function_of(text) for text in texts])
