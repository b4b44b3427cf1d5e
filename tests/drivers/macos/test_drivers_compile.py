"""The host driver compiles for macOS. The whole cross build is a sweep (test_cross_build.py)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cross import ROOT, TARGET, missing_tools, zig

SOURCES = sorted((ROOT / "src/driver/host").glob("*.cpp"))

pytestmark = pytest.mark.skipif(bool(missing_tools()), reason=f"a cross build needs {missing_tools()}")


def compiled(source: Path, folder: Path) -> str:
    """Compile a file for macOS, and return the compiler's messages."""
    command = [zig(), "c++", "-target", TARGET, "-std=c++20", "-Wall", "-Wextra", "-Wshadow", "-Werror",
               f"-I{ROOT / 'src'}", f"-I{ROOT / 'metal'}", "-c", source, "-o", folder / "a.o"]  # fmt: skip
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, cwd=folder).stderr


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_host_driver(source: Path, tmp_path: Path) -> None:
    assert compiled(source, tmp_path) == ""


def test_error(tmp_path: Path) -> None:
    """A header that macOS does not have is an error."""
    source = tmp_path / "a.cpp"
    source.write_text("#include <ucontext.h>\n")
    assert "_XOPEN_SOURCE" in compiled(source, tmp_path)
