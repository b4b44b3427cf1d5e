"""Disassemble LLVM bitcode to IR text: in this process if llvmlite is installed, otherwise with clang."""

from __future__ import annotations

import contextlib
import subprocess

from .ir import AirError


def disassemble(bitcode: bytes, clang: list[str]) -> str:
    """Return the IR of a bitcode module. Run the command `clang` if llvmlite is missing, or too old for the bitcode."""
    with contextlib.suppress(ImportError, RuntimeError):
        from llvmlite import binding

        return str(binding.parse_bitcode(bitcode))
    command = [*clang, "-x", "ir", "-", "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-w", "-o", "-"]
    found = subprocess.run(command, input=bitcode, capture_output=True, check=False)
    if found.returncode:
        raise AirError(f"expected LLVM bitcode: {found.stderr.decode(errors='replace').strip()}")
    return found.stdout.decode()
