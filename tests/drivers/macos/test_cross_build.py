"""Compile and link all native code for macOS on arm64 against the macOS wheel of torch, and inspect the result.

The first run takes half an hour on one core. Nothing is executed, so the test only finds what a compiler or a linker
can detect. The torch wheel (111 MB) is read from the folder $MPSX_MACOS_TORCH. If this variable is not set, the wheel
is downloaded.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import macho
import pytest
from cross import ROOT, Cross, missing_tools
from derive_exports import CORE_FOUNDATION, FOUNDATION, OBJC
from derive_exports import read as read_exports

pytestmark = [
    pytest.mark.sweep,
    pytest.mark.timeout(7200),  # long enough for a busy machine
    pytest.mark.skipif(bool(missing_tools()), reason=f"a cross build needs {missing_tools()}"),
]
TORCH = "2.13.0"
SYSTEM = "/usr/lib/libSystem.B.dylib"


def torch_for_macos(folder: Path) -> Path:
    """Unpack torch's macOS wheel."""
    given = os.environ.get("MPSX_MACOS_TORCH")
    source = Path(given) if given else folder / "wheel"
    if not given:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(source),
                   "--python-version", version, "--platform", "macosx_14_0_arm64", f"torch=={TORCH}"]  # fmt: skip
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no package index to fetch torch for macOS from: {done.stderr.strip().splitlines()[-1]}")
    with zipfile.ZipFile(next(source.glob(f"torch-{TORCH}-*macosx*arm64.whl"))) as wheel:
        wheel.extractall(folder / "torch")
    return folder / "torch"


@pytest.fixture(scope="module")
def cross(tmp_path_factory: pytest.TempPathFactory) -> Cross:
    """Build all targets."""
    folder = tmp_path_factory.mktemp("cross")
    found = Cross(folder, torch_for_macos(folder))
    found.configure("-DMPSX_ISAS=baseline")
    found.make(timeout=7200)
    return found


@pytest.fixture(scope="module")
def installed(cross: Cross) -> Path:
    """Install the wheel's contents, and return the package folder."""
    to = cross.folder / "installed"
    cross.install(to)
    return to / "mpsx"


def libraries(installed: Path) -> dict[str, macho.Library]:
    """Read every Mach-O file in the package."""
    return {path.name: macho.read(path) for path in installed.rglob("*") if path.suffix in (".dylib", ".so")}


def test_files(installed: Path) -> None:
    found = {path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()}
    wanted = {"lib/libmpsx.dylib", "lib/libmpsx_kernels_baseline.dylib", "lib/mpsx.metal", "lib/mpsx.metallib",
              "lib/mpsx_tensor.metal", "lib/mpsx_tensor.metallib"}  # fmt: skip
    assert wanted <= found
    assert any(name.startswith("_runtime.cpython-") and name.endswith("-darwin.so") for name in found)
    assert not [name for name in found if name.endswith((".o", ".a", ".air", ".c", ".tbd"))]


def test_names_and_paths(installed: Path, cross: Cross) -> None:
    """No path points to the build machine, and the run paths lead to torch's libraries next to the package."""
    least = macho.read(cross.torch / "torch" / "lib" / "libtorch_cpu.dylib").minimum_macos
    found = libraries(installed)
    for name, library in found.items():
        assert library.minimum_macos == least == (14, 0), name
        if name.endswith(".dylib"):
            assert library.install_name == f"@rpath/{name}"
        for path in [*library.dependencies, *library.rpaths]:
            assert path.startswith(("@rpath/", "@loader_path", "/usr/lib/", "/System/Library/")), (name, path)
    own = found["libmpsx.dylib"]
    assert own.rpaths == ["@loader_path/../../torch/lib"]
    assert {"@rpath/libtorch_cpu.dylib", "@rpath/libc10.dylib"} <= set(own.dependencies)
    for module in (library for name, library in found.items() if name.endswith(".so")):
        assert module.rpaths == ["@loader_path/lib"]
        assert "@rpath/libmpsx.dylib" in module.dependencies


def python_functions() -> set[str]:
    """Return the symbols that Python exports to extension modules. On macOS, Python exports the same functions."""
    library = sysconfig.get_config_var("LDLIBRARY") or ""
    folder = sysconfig.get_config_var("LIBDIR") or ""
    names = set()
    for path in (Path(folder) / library, Path(sys.executable).resolve()):
        if path.is_file():
            done = subprocess.run(
                ["nm", "-g", "--defined-only", str(path)], check=False, capture_output=True, text=True
            )
            names |= {f"_{line.split()[-1].split('@')[0]}" for line in done.stdout.splitlines() if line.strip()}
    return names


@pytest.mark.skipif(platform.system() != "Linux", reason="nm has a different format on this system")
def test_no_symbol_is_unresolved(installed: Path, cross: Cross) -> None:
    exports = {library: set(symbols) for library, symbols in read_exports().items()}
    exports[FOUNDATION] |= exports[CORE_FOUNDATION] | exports[OBJC]  # Foundation re-exports these symbols
    for path in (cross.torch / "torch" / "lib").glob("*.dylib"):
        library = macho.read(path)
        exports[library.install_name] = library.exports
    found = libraries(installed)
    exports |= {library.install_name: library.exports for library in found.values() if library.install_name}
    python, unresolved = python_functions(), []
    for name, library in found.items():
        for symbol, owner in library.imports.items():
            if owner in (SYSTEM, "") and not symbol.startswith(("_Py", "__Py")):
                continue  # the linker checks the symbols of libSystem
            known = exports.get(owner, set()) if owner else python
            if symbol not in known and symbol not in library.weak:
                unresolved.append(f"{name}: {symbol} of {owner or 'Python'}")
    assert unresolved == []


def test_package_is_small(installed: Path) -> None:
    assert sum(path.stat().st_size for path in installed.rglob("*") if path.is_file()) < 100 << 20


def test_kernel_sources_are_complete(installed: Path) -> None:
    text = "".join((installed / "lib" / f"{stem}.metal").read_text() for stem in ("mpsx", "mpsx_tensor"))
    assert text.count("//mpsx:unit ") == len(list((ROOT / "metal").glob("*/*.metal")))
    assert str(ROOT) not in text
