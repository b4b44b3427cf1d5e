"""Kernel libraries are compiled on first use (python/mpsx/shader/kernel_library.py)."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mpsx.msl.compiler import supported_isas
from mpsx.shader import kernel_library, toolchain

METAL = """#include <metal_stdlib>
using namespace metal;
kernel void NAME(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = NUMBER; }
"""
SCRIPT = """import sys, pathlib
from mpsx.shader import kernel_library
kernel_library.SOURCES = pathlib.Path(sys.argv[1])
print(kernel_library.library("simt"))
"""


def write(folder: Path, name: str, number: int) -> None:
    (folder / "family").mkdir(parents=True, exist_ok=True)
    (folder / "family" / f"{name}.metal").write_text(METAL.replace("NAME", name).replace("NUMBER", str(number)))


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the package's Metal files with two small ones, and start with an empty cache."""
    folder = tmp_path / "metal"
    write(folder, "first", 1)
    write(folder, "second", 2)
    monkeypatch.setattr(kernel_library, "SOURCES", folder)
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def objects(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "cache" / "objects").glob("*.o")}


@pytest.mark.parametrize("name", ["simt", "baseline"])
def test_built_once(sources: Path, tmp_path: Path, name: str, capfd: pytest.CaptureFixture) -> None:
    path = kernel_library.library(name)
    assert path.name == kernel_library.file_name(name)
    assert ctypes.CDLL(str(path)).mpsx_kernel_table
    said = capfd.readouterr().err
    assert f"mpsx: compiling the kernels for {name} (once; takes minutes)" in said
    assert f"mpsx: compiled the kernels for {name} in " in said
    assert kernel_library.library(name) == path
    assert capfd.readouterr().err == ""

    before = objects(tmp_path)
    write(sources, "second", 3)
    other = kernel_library.library(name)
    assert other != path
    assert path.exists()
    assert len(objects(tmp_path) - before) == 1, "unchanged files were compiled again"
    assert not [entry for entry in (tmp_path / "cache").iterdir() if entry.name.startswith("tmp-")]


def test_concurrent_processes_build_once(sources: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(sources)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    done = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * 3, done
    assert len({out for out, _ in done}) == 1
    assert sum("compiled the kernels" in err for _, err in done) == 1


def test_compile_error(sources: Path, tmp_path: Path) -> None:
    write(sources, "first", "nonsense")
    with pytest.raises(RuntimeError, match=r"(?s)cannot compile the kernels for simt: .*metal/family/first\.metal:3:"):
        kernel_library.library("simt")
    write(sources, "first", 1)
    assert kernel_library.library("simt").exists()


def test_no_compiler(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> None:
        raise RuntimeError("no compiler for kernels (`pip install ziglang` installs one)")

    monkeypatch.setattr(toolchain, "find_compiler", none)
    with pytest.raises(RuntimeError, match=r"for simt are installed, and none can be compiled: .*pip install ziglang"):
        kernel_library.library("simt")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one library per processor family")
@pytest.mark.parametrize(
    ("driver", "isa", "installed", "wanted"),
    [
        ("", "", [supported_isas()[0]], ""),
        ("", "", ["baseline"], ""),
        ("host", "", ["sparc"], supported_isas()[0]),  # compiled on a different machine
        ("host", "baseline", [supported_isas()[0]], "baseline" if len(supported_isas()) > 1 else ""),
        ("host", "sparc", ["baseline"], ""),  # rejected by the driver
        ("metal", "", [], ""),
        ("simt", "", ["baseline"], "simt"),
    ],
)
def test_which_library_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, isa: str, installed: list[str], wanted: str
) -> None:
    (tmp_path / "lib").mkdir()
    for name in installed:
        (tmp_path / "lib" / kernel_library.file_name(name)).touch()
    monkeypatch.setattr(kernel_library, "PACKAGE", tmp_path)
    monkeypatch.setattr(kernel_library, "library", lambda name, *_, **__: Path("built") / name / "library")
    monkeypatch.setenv("MPSX_DRIVER", driver)
    monkeypatch.setenv("MPSX_ISA", isa)
    assert kernel_library.folder() == (f"built/{wanted}" if wanted else str(tmp_path / "lib"))


def test_first_use_raises_the_error() -> None:
    """If no kernels are available, `import torch` still succeeds. The first use of the driver raises the error."""
    code = ("import torch\nfrom mpsx.shader import kernel_library\n"
            "def fail(*_, **__): raise RuntimeError('no such luck')\n"
            "kernel_library.library = fail\nprint('imported', flush=True)\ntorch.ones(1, device='mpsx')\n")  # fmt: skip
    run = subprocess.run([sys.executable, "-c", code], env=os.environ | {"MPSX_DRIVER": "simt"}, capture_output=True,
                         text=True, check=False)  # fmt: skip
    assert run.stdout == "imported\n"
    assert "RuntimeError: mpsx: no such luck" in run.stderr
