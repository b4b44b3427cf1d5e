"""Builds the Metal driver together with the emulated Metal of tests/metal_driver/emulation, for machines without Metal.

`build_library` makes a shared library that brings make_metal_driver with it: loaded before mpsx (LD_PRELOAD), it is
what MPSX_DRIVER=metal finds. `build_program` links the two with a test program instead. Objects are kept by the hash of
what they are made from, so that a second build of the same sources, or of a copy with one line changed, is quick.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DRIVER = ROOT / "src" / "driver" / "metal"
HOST = ROOT / "src" / "driver" / "host"
EMULATION = ROOT / "tests" / "metal_driver" / "emulation"
OUTPUT = ROOT / "build" / "emulated-metal"
FLAGS = "-std=c++20 -g -O1 -fPIC -fvisibility=hidden -Wall -Wextra -Wshadow -Werror".split()
# GNU's Objective-C runtime: classes of its old layout, whose strings have a class of their own.
OBJC_FLAGS = """-x objective-c++ -fblocks -fobjc-runtime=gcc -fconstant-string-class=NSConstantString -fobjc-exceptions
    -Wno-objc-root-class -Wno-protocol -Wno-incompatible-pointer-types -Wno-incomplete-implementation""".split()
KERNEL_FLAGS = """-std=c++17 -O1 -g -fPIC -shared -fvisibility=hidden -fno-exceptions -fno-rtti -ffp-contract=off -w
    -DMPSX_KERNEL_ISA="emulated" -DMPSX_KERNEL_COMPILER="clang" """.split()


class Unavailable(RuntimeError):
    """What the build needs is not installed."""


def first(*names: str) -> str | None:
    """The first of some programs that is on the path."""
    return next((found for name in names if (found := shutil.which(name))), None)


@functools.cache
def toolchain() -> tuple[str, str, str]:
    """The compiler of Objective-C++, objcopy, and gcc's folder with the runtime's headers and library."""
    compiler = first("clang++-19", "clang++-18", "clang++-17", "clang++-16", "clang++")
    objcopy = first("llvm-objcopy-19", "llvm-objcopy-18", "llvm-objcopy-17", "llvm-objcopy-16", "llvm-objcopy")
    folders = sorted(glob.glob("/usr/lib/gcc/*-linux-gnu/*/include/objc"), key=lambda p: int(p.split("/")[-3]))
    if not compiler or not objcopy:
        raise Unavailable("no clang++ for Objective-C++ (Debian: clang-19 llvm-19)")
    if not folders:
        raise Unavailable("no GNU Objective-C runtime (Debian: libobjc-12-dev)")
    return compiler, objcopy, str(Path(folders[-1]).parents[1])


def run(*command: str) -> None:
    """Runs a command; throws with what it said if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{result.stdout}{result.stderr}")


def digest(*parts: str) -> str:
    """A name for content."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def headers(*folders: Path) -> str:
    """The text of every header in some folders, and of those that all sources may include."""
    paths = {p for folder in (*folders, ROOT / "src" / "driver") for p in folder.glob("*.h")}
    return "\0".join(p.read_text() for p in sorted(paths | set(EMULATION.glob("include/*/*.h"))))


def compile_object(source: Path, include: list[str], flags: list[str], context: str) -> Path:
    """The object of a source, made unless one of the same content is there."""
    compiler, objcopy, runtime = toolchain()
    objective = source.suffix == ".mm"
    command = [compiler, *(OBJC_FLAGS if objective else []), *FLAGS, *flags]
    if HOST in source.parents:
        command.append("-w")  # the package's own build looks at its warnings, with its own compiler
    name = digest(source.name, source.read_text(), context, " ".join(command))  # paths do not matter
    command += [f"-I{folder}" for folder in include]
    if objective:
        command += ["-isystem", str(EMULATION / "include"), "-idirafter", f"{runtime}/include"]
    target = OUTPUT / "objects" / f"{source.stem}-{name}.o"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}.tmp.o")
    run(*command, "-c", str(source), "-o", str(fresh))
    if objective:
        # GNU's personality routine for Objective-C++ knows no C++ exceptions.
        run(objcopy, "--redefine-sym", "__gnu_objc_personality_v0=__gxx_personality_v0", str(fresh))
    fresh.replace(target)
    return target


def objects(driver: Path, flags: list[str], more: tuple[Path, ...] = ()) -> list[Path]:
    """Everything compiled: the driver (or a changed copy of it), the emulation, and more sources."""
    include = [str(driver.parents[1]), str(ROOT / "src"), str(EMULATION)]
    own, others = headers(driver), headers(EMULATION, HOST, HOST / "simt")
    sources = {source: own for kind in ("*.mm", "*.cpp") for source in driver.glob(kind)}
    sources |= {source: others for kind in ("*.mm", "*.cpp") for source in EMULATION.glob(kind)}
    sources |= dict.fromkeys((HOST / "simt").glob("*.cpp"), others)  # the engine that runs the emulated GPU's kernels
    sources |= dict.fromkeys(more, others)

    def build(entry: tuple[Path, str]) -> Path:
        source, context = entry
        # The engine runs kernels on stacks of its own, which sanitizers do not follow.
        return compile_object(source, include, [] if HOST in source.parents else flags, context)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(build, sorted(sources.items())))


def link(kind: list[str], target: Path, parts: list[Path], flags: list[str]) -> Path:
    """One file out of objects."""
    compiler, _, runtime = toolchain()
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}.tmp")
    run(compiler, *kind, *flags, "-o", str(fresh), *map(str, parts), f"-L{runtime}", "-lobjc", "-ldl", "-lpthread")
    fresh.replace(target)
    return target


def build_library(driver: Path = DRIVER) -> Path:
    """The shared library to load before mpsx."""
    parts = objects(driver, [])
    target = OUTPUT / f"libmpsx_emulated_metal-{digest(*map(str, parts))}.so"
    return target if target.exists() else link(["-shared"], target, parts, [])


def build_program(sources: list[Path], driver: Path = DRIVER, flags: tuple[str, ...] = ()) -> Path:
    """A program of its own over the driver and the emulation. `flags`: of a sanitizer."""
    parts = objects(driver, list(flags), tuple(sources))
    target = OUTPUT / f"{sources[0].stem}-{digest(*map(str, parts))}"
    return target if target.exists() else link(["-rdynamic"], target, parts, list(flags))


def kernel_library(source: Path, target: Path, keep: bool = True) -> Path:
    """A library of the kernels of one Metal file: what stands for a metallib. `keep`: reuse one of the same content."""
    tools = "".join(p.read_text() for p in sorted((ROOT / "tools" / "msl").glob("*.py")))
    stamp = target.with_suffix(".stamp")
    name = digest(source.read_text(), tools)
    if keep and target.exists() and stamp.exists() and stamp.read_text() == name:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    compiler, _, _ = toolchain()
    msl = [sys.executable, str(ROOT / "tools" / "msl.py")]
    work = target.parent / f"{target.stem}-{os.getpid()}"
    translated, index, library = (Path(f"{work}{suffix}") for suffix in (".cpp", ".index.cpp", ".so"))
    try:
        run(*msl, "translate", str(source), "-o", str(translated), "-I", str(ROOT / "metal"), "--name", "unit",
            "--mode", "simt", "--preprocessor", compiler)  # fmt: skip
        run(*msl, "index", str(translated), "-o", str(index))
        run(compiler, *KERNEL_FLAGS, f"-I{HOST}", str(translated), str(index), "-o", str(library))
        library.replace(target)
    finally:
        for path in (translated, index, library):
            path.unlink(missing_ok=True)
    if keep:
        stamp.write_text(name)
    return target


def link_package(package: Path, site: Path) -> None:
    """Lays out a copy of the installed package by links, its SIMT kernels standing for the metallib."""
    libraries = package / "lib"
    kernels = libraries / "libmpsx_kernels_simt.so"
    if not kernels.exists():
        raise Unavailable(f"no {kernels.name} in this build")
    copy = site / "mpsx"
    (copy / "lib").mkdir(parents=True, exist_ok=True)
    wanted = {copy / p.name: p for p in package.iterdir() if p.name not in ("lib", "__pycache__")}
    wanted |= {copy / "lib" / p.name: p for p in libraries.iterdir()}
    wanted[copy / "lib" / "mpsx.metallib"] = kernels
    for at, target in wanted.items():
        if at.is_symlink():
            if os.readlink(at) == str(target.resolve()):
                continue
            at.unlink()
        at.symlink_to(target.resolve())


def environment(package: Path, site: Path = OUTPUT / "site") -> dict[str, str]:
    """The environment in which `package` runs MPSX_DRIVER=metal on the emulated Metal."""
    library = build_library()
    link_package(package, site)
    return dict(
        os.environ,
        MPSX_DRIVER="metal",
        # What the GPU owns is known by buffer: tensors of two threads must not share one.
        MPSX_METAL_EXACT_BUFFERS=os.environ.get("MPSX_METAL_EXACT_BUFFERS", "1"),
        LD_PRELOAD=os.pathsep.join(filter(None, [str(library), os.environ.get("LD_PRELOAD")])),
        PYTHONPATH=os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])),
        MPSX_EMULATION_COMPILER=f"{sys.executable} {ROOT / 'tools' / 'emulated_metal_compiler.py'}",
    )


if __name__ == "__main__":
    try:
        print(build_library())
    except Unavailable as e:
        sys.exit(str(e))
