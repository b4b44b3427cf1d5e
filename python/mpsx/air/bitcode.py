"""Disassemble LLVM bitcode to IR text: in this process if llvmlite is installed, otherwise with clang."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess

from .ir import AirError


def disassemble(bitcode: bytes, sha256: bytes, clang: list[str]) -> str:
    """Return the IR of a bitcode module. `sha256` is its hash according to the metallib, or b"".

    Run the command `clang` if llvmlite is missing, or too old for the bitcode, or if there is no hash to check: LLVM
    aborts the process for some damaged modules."""
    if sha256:
        if hashlib.sha256(bitcode).digest() != sha256:
            raise AirError("expected LLVM bitcode with the SHA-256 hash that the file states: the file is damaged")
        with contextlib.suppress(ImportError, RuntimeError, UnicodeDecodeError):
            from llvmlite import binding

            return str(binding.parse_bitcode(bitcode))
    command = [*clang, "-x", "ir", "-", "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-w", "-o", "-"]
    found = subprocess.run(command, input=bitcode, capture_output=True, check=False)
    if found.returncode:
        raise AirError(f"expected LLVM bitcode: {found.stderr.decode(errors='replace').strip()}")
    return found.stdout.decode(errors="replace")
