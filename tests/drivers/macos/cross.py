"""Cross-compile for macOS on arm64 with zig's clang. Stubs replace tools and frameworks that exist only on Macs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from derive_exports import write_stubs

ROOT = Path(__file__).resolve().parents[3]
HEADERS = ROOT / "tests" / "drivers" / "metal" / "emulation" / "include"
TARGET = "aarch64-macos.14.0"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
SOABI = f"cpython-{sys.version_info.major}{sys.version_info.minor}-darwin"

# A stub of xcrun that logs its arguments. If `metal` is false, it fails, as xcrun does on a Mac without the Metal
# toolchain.
XCRUN = """#!{python}
import json, os, sys
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(arguments) + "\\n")
if "metal" in arguments or "metallib" in arguments:
    if not {metal}:
        sys.exit("error: cannot execute tool 'metal' due to missing Metal Toolchain")
    if "--version" in arguments:
        print("Apple metal version 0.0 (stub)")
    for output in [arguments[i + 1] for i, argument in enumerate(arguments) if argument == "-o"]:
        open(output, "wb").close()
else:
    sys.exit(1)
"""
TOOLCHAIN = """set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER "{bin}/cc")
set(CMAKE_CXX_COMPILER "{bin}/c++")
set(CMAKE_OBJCXX_COMPILER "{bin}/c++")
set(CMAKE_OBJCXX_FLAGS_INIT "-isystem {headers}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-F{stubs}")
set(CMAKE_AR "{bin}/ar")
set(CMAKE_RANLIB "{bin}/ranlib")
set(CMAKE_INSTALL_NAME_TOOL "{bin}/install_name_tool")
"""


def missing_tools() -> str:
    """Return the names of the missing modules and programs that a cross build needs."""
    modules = [name for name in ("ziglang", "Cython") if importlib.util.find_spec(name) is None]
    programs = [name for name in ("cmake", "ninja") if shutil.which(name) is None]
    return ", ".join(modules + programs)


def zig() -> Path:
    """Return the path of the zig executable in the package ziglang."""
    spec = importlib.util.find_spec("ziglang")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "zig"


def script(path: Path, text: str) -> None:
    """Write an executable script. If it has not changed, keep its modification time, which compiler caches check."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    path.chmod(0o755)


@dataclass
class Cross:
    """A build folder for macOS. `torch` is the folder with the unpacked macOS wheel of torch."""

    folder: Path
    torch: Path
    metal: bool = True  # whether xcrun finds Apple's Metal compiler

    @property
    def build(self) -> Path:
        return self.folder / "build"

    @property
    def xcrun_log(self) -> Path:
        return self.folder / "xcrun.jsonl"

    def prepare(self) -> None:
        """Write the toolchain file, the tools and the framework stubs."""
        tools = self.folder / "bin"
        tools.mkdir(parents=True, exist_ok=True)
        for name in ("cc", "c++"):
            # Omit the target, because `zig cc -target … --version` leaves a file a.o behind.
            version = f"[ \"$1\" = --version ] && exec '{zig()}' {name} --version"
            compile_ = f"exec '{zig()}' {name} -target {TARGET} -fno-sanitize=undefined \"$@\""
            # Python modules are bundles, but zig 0.17 crashes when linking a bundle. Link a dynamic library instead.
            bundle = 'for w; do shift; [ "$w" = -bundle ] && w=-dynamiclib; set -- "$@" "$w"; done\n'
            # CMake identifies a compiler by strings in a linked program. To link it, zig would first compile libc++ for
            # a minute. Compile an object file instead, which contains the same strings.
            identify = 'case "$*" in *CMake*CompilerId.*) set -- -c "$@" ;; esac'
            script(tools / name, f"#!/bin/sh\n{version}\n{identify}\n{bundle}{compile_}\n")
        for name in ("ar", "ranlib"):
            script(tools / name, f"#!/bin/sh\nexec '{zig()}' {name} \"$@\"\n")
        # The build must not run install_name_tool, because libraries are linked with their final names and paths.
        script(tools / "install_name_tool", "#!/bin/sh\nexit 1\n")
        script(tools / "xcrun", XCRUN.format(python=sys.executable, log=str(self.xcrun_log), metal=self.metal))
        # CMake 3.25 writes run paths only if sw_vers reports macOS 10.5 or later.
        script(tools / "sw_vers", "#!/bin/sh\necho 14.0\n")
        stubs = self.folder / "frameworks"
        write_stubs(stubs)
        (self.folder / "toolchain.cmake").write_text(TOOLCHAIN.format(bin=tools, headers=HEADERS, stubs=stubs))
        # Copy Python's headers. On Debian, pyconfig.h includes an architecture-specific file.
        headers = self.folder / "include"
        headers.mkdir(exist_ok=True)
        for header in Path(sysconfig.get_path("include")).iterdir():
            if not (headers / header.name).exists():
                (headers / header.name).symlink_to(header)
        multiarch = Path("/usr/include", str(sysconfig.get_config_var("MULTIARCH")), PYTHON, "pyconfig.h")
        if "multiarch" in (headers / "pyconfig.h").read_text() and multiarch.exists():
            (headers / "pyconfig.h").unlink()
            (headers / "pyconfig.h").symlink_to(multiarch)
        # Python's build configuration on macOS. It determines the suffix of extension modules.
        values = dict(sysconfig.get_config_vars(), SOABI=SOABI, EXT_SUFFIX=f".{SOABI}.so")
        (self.folder / "_sysconfigdata_macos.py").write_text(f"build_time_vars = {values!r}\n")

    def environment(self) -> dict[str, str]:
        found = {**os.environ, "_PYTHON_HOST_PLATFORM": "macosx-14.0-arm64"}
        found["PATH"] = os.pathsep.join([str(self.folder / "bin"), found["PATH"]])
        found["PYTHONPATH"] = os.pathsep.join([str(self.torch), str(self.folder)])
        found["_PYTHON_SYSCONFIGDATA_NAME"] = "_sysconfigdata_macos"
        found |= {"CCACHE_COMPILERCHECK": "content", "CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": str(ROOT)}
        found |= {"MPSX_KERNEL_CXX": str(self.folder / "bin" / "c++"), "MPSX_KERNEL_MACHINE": "arm64"}
        for name in ("MACOSX_DEPLOYMENT_TARGET", "CXXFLAGS", "CFLAGS", "LDFLAGS"):
            found.pop(name, None)
        return found

    def run(self, *command: str | Path, timeout: float = 600) -> str:
        """Run a command, and return its output. If the command fails, raise an error that contains the output."""
        done = subprocess.run([*map(str, command)], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=self.environment(), timeout=timeout)  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}")
        return done.stdout

    def configure(self, *options: str) -> str:
        self.prepare()
        return self.run("cmake", "-S", ROOT, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                        f"-DCMAKE_TOOLCHAIN_FILE={self.folder / 'toolchain.cmake'}", "-DMPSX_PRECOMPILE=OFF",
                        f"-DPython_EXECUTABLE={sys.executable}", f"-DPython_INCLUDE_DIR={self.folder / 'include'}",
                        f"-DSKBUILD_SOABI={SOABI}", *options)  # fmt: skip

    def targets(self) -> list[str]:
        return [line.split(":")[0] for line in self.run("ninja", "-C", self.build, "-t", "targets", "all").splitlines()]

    def make(self, *targets: str, jobs: int = 2, timeout: float = 120) -> str:
        return self.run("ninja", "-C", self.build, "-j", str(jobs), *targets, timeout=timeout)

    def install(self, to: Path) -> list[str]:
        """Install the wheel's files in `to`, and return their relative paths."""
        self.run("cmake", "--install", self.build, "--prefix", to)
        return sorted(path.relative_to(to).as_posix() for path in to.rglob("*") if path.is_file())
