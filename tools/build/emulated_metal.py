"""Build the Metal driver against the emulated Metal in tests/drivers/metal/emulation, for machines without Metal.

`build_library` creates a shared library that defines make_metal_driver. Preload it (LD_PRELOAD) to enable
MPSX_DRIVER=metal. `build_program` links a test program instead. Object files are cached by a hash of their inputs, so a
rebuild only compiles sources that have changed.
"""

from __future__ import annotations

import fcntl
import functools
import glob
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

from msl.compiler import TENSOR_FLAGS, find_compiler  # noqa: E402
from msl.library import translate_library  # noqa: E402
from msl.passes.tensors import uses_tensors  # noqa: E402
from msl.preprocess import preprocess  # noqa: E402
from msl.source import Source  # noqa: E402

DRIVER = ROOT / "src" / "driver" / "metal"
HOST = ROOT / "src" / "driver" / "host"
STDLIB = ROOT / "src" / "metal_stdlib"
TRANSLATOR = ROOT / "python" / "mpsx" / "msl"
EMULATION = ROOT / "tests" / "drivers" / "metal" / "emulation"
OUTPUT = ROOT / "build" / "emulated-metal"
FLAGS = "-std=c++20 -fPIC -fvisibility=hidden -Wall -Wextra -Wshadow -Werror".split()
# GNU's Objective-C runtime requires the old class layout and its own string class.
OBJC_FLAGS = """-x objective-c++ -fblocks -fobjc-runtime=gcc -fconstant-string-class=NSConstantString -fobjc-exceptions
    -Wno-objc-root-class -Wno-protocol -Wno-incompatible-pointer-types -Wno-incomplete-implementation""".split()

# Headers of the standard library that most sources include. Parsing them takes longer than everything else.
HEADERS = """algorithm array atomic condition_variable cstring deque fstream functional map memory mutex optional
    sstream string thread unordered_map vector""".split()
PRECOMPILED = "".join(f"#include <{name}>\n" for name in HEADERS)

# CommandStream::dispatch. The linker redirects its callers to the emulation (hazards.mm).
DISPATCH = "_ZN4mpsx6driver5metal13CommandStream8dispatchERKNS1_11MetalKernelEPKNS0_8ArgumentEmRKNS0_8DispatchE"
# The element types' values in MTLTensorDataType.
TENSOR_TYPES = {"float": 3, "half": 16, "bfloat": 121, "char": 45, "uchar": 49, "short": 37, "ushort": 41, "int": 29,
                "uint": 33}  # fmt: skip


class Unavailable(RuntimeError):
    """Raised if a build tool is not installed."""


def first(*names: str) -> str | None:
    """Return the path of the first of these programs that is on PATH."""
    return next((found for name in names if (found := shutil.which(name))), None)


@functools.cache
def toolchain() -> tuple[str, str, str]:
    """Return the Objective-C++ compiler, objcopy, and the gcc folder that contains the headers and the library of the
    Objective-C runtime."""
    compiler = first("clang++-19", "clang++-18", "clang++-17", "clang++-16", "clang++")
    objcopy = first("llvm-objcopy-19", "llvm-objcopy-18", "llvm-objcopy-17", "llvm-objcopy-16", "llvm-objcopy")
    folders = sorted(glob.glob("/usr/lib/gcc/*-linux-gnu/*/include/objc"), key=lambda p: int(p.split("/")[-3]))
    if not compiler or not objcopy:
        raise Unavailable("no clang++ for Objective-C++ (Debian: clang-19 llvm-19)")
    if not folders:
        raise Unavailable("no GNU Objective-C runtime (Debian: libobjc-12-dev)")
    return compiler, objcopy, str(Path(folders[-1]).parents[1])


def run(*command: str) -> None:
    """Run a command. Raise an error with its output if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{result.stdout}{result.stderr}")


def make(target: Path, build: Callable[[Path], None]) -> Path:
    """Return `target`. If it does not exist, build(path) creates it at another path. Only one process builds it, and
    others wait."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            fresh = target.with_suffix(".tmp" + target.suffix)
            build(fresh)
            fresh.replace(target)
    return target


def digest(*parts: str) -> str:
    """Return a file name that contains a hash of `parts`."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def headers(*folders: Path) -> str:
    """Return the text of all headers in these folders, plus the headers that any source may include."""
    paths = {p for folder in (*folders, ROOT / "src" / "driver") for p in folder.glob("*.h")}
    return "\0".join(p.read_text() for p in sorted(paths | set(EMULATION.glob("include/*/*.h"))))


def compile_object(source: Path, include: list[str], flags: list[str], context: str) -> Path:
    """Compile a source to an object file unless it is cached."""
    compiler, objcopy, runtime = toolchain()
    objective = source.suffix == ".mm"
    # Sanitizers report line numbers.
    command = [compiler, *(OBJC_FLAGS if objective else []), *FLAGS, *(["-g", "-O1", *flags] if flags else [])]
    if HOST in source.parents:
        # Optimize the simt engine, because it runs every thread of a kernel. The regular build already checks its
        # warnings.
        command += ["-O1", "-w"]
    name = digest(source.name, source.read_text(), context, " ".join(command))  # does not depend on paths
    if objective:
        command += ["-isystem", str(EMULATION / "include"), "-idirafter", f"{runtime}/include"]
    command += ["-include-pch", str(precompiled_headers(*command)), *(f"-I{folder}" for folder in include)]

    def build(fresh: Path) -> None:
        run(*command, "-c", str(source), "-o", str(fresh))
        if objective:
            # The Objective-C++ personality routine of GNU does not support C++ exceptions, so use the C++ one.
            run(objcopy, "--redefine-sym", "__gnu_objc_personality_v0=__gxx_personality_v0", str(fresh))

    return make(OUTPUT / "objects" / f"{source.stem}-{name}.o", build)


def precompiled_headers(*command: str) -> Path:
    """Precompile PRECOMPILED for one compiler command. clang rejects the result if the compiler has changed."""
    objective = "objective-c++" in command
    text = ("#include <objc/runtime.h>\n" if objective else "") + PRECOMPILED
    version = str(os.stat(command[0]).st_mtime_ns)
    target = OUTPUT / "objects" / f"headers-{digest(text, version, *command)}.pch"

    def build(fresh: Path) -> None:
        source = target.with_suffix(".h")
        source.write_text(text)
        language = "objective-c++-header" if objective else "c++-header"
        run(*command, "-Xclang", "-fno-pch-timestamp", "-x", language, str(source), "-o", str(fresh))

    return make(target, build)


def objects(driver: Path, flags: list[str], more: tuple[Path, ...] = ()) -> list[Path]:
    """Compile the driver (or a modified copy of it), the emulation, and additional sources."""
    include = [str(driver.parents[1]), str(ROOT / "src"), str(EMULATION)]
    own, others = headers(driver, driver.parent), headers(EMULATION, HOST, HOST / "simt", STDLIB)
    sources = {source: own for kind in ("*.mm", "*.cpp") for source in driver.glob(kind)}
    sources |= {source: others for kind in ("*.mm", "*.cpp") for source in EMULATION.glob(kind)}
    sources |= dict.fromkeys((ROOT / "src" / "driver").glob("*.cpp"), own)
    # Compile the simt engine, which runs the emulated GPU's kernels, and the signal handlers that can interrupt it.
    sources |= dict.fromkeys((HOST / "simt").glob("*.cpp"), others)
    signals = ("interrupt.cpp", "kernel_code.cpp", "fault_handler.cpp")
    sources |= dict.fromkeys((HOST / name for name in signals), others)
    sources |= dict.fromkeys(more, others)

    def build(entry: tuple[Path, str]) -> Path:
        source, context = entry
        # Sanitizers cannot follow the simt engine's stack switches.
        return compile_object(source, include, [] if HOST in source.parents else flags, context)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(build, sorted(sources.items())))


def link(kind: list[str], target: Path, parts: list[Path], flags: list[str]) -> Path:
    """Link objects to `target` unless it exists."""
    compiler, _, runtime = toolchain()

    def build(fresh: Path) -> None:
        run(compiler, *kind, *flags, f"-Wl,--wrap={DISPATCH}", "-o", str(fresh), *map(str, parts), f"-L{runtime}",
            "-lobjc", "-ldl", "-lpthread")  # fmt: skip

    return make(target, build)


def build_library(driver: Path = DRIVER, flags: tuple[str, ...] = ()) -> Path:
    """Build the shared library to preload. `flags` may enable a sanitizer."""
    parts = objects(driver, list(flags))
    return link(["-shared"], OUTPUT / f"libmpsx_emulated_metal-{digest(*map(str, parts))}.so", parts, list(flags))


def build_program(sources: list[Path], driver: Path = DRIVER, flags: tuple[str, ...] = ()) -> Path:
    """Build a program from `sources`, the driver, and the emulation. `flags` may enable a sanitizer."""
    parts = objects(driver, list(flags), tuple(sources))
    return link(["-rdynamic"], OUTPUT / f"{sources[0].stem}-{digest(*map(str, parts))}", parts, list(flags))


def reflection(kernels: list[dict]) -> str:
    """Format the kernels' reflection data as tab-separated lines for the emulation's kernels.cpp."""
    lines = []
    for kernel in kernels:
        for b in kernel["buffers"]:
            kind = "threadgroup" if b["space"] == "threadgroup" else "tensor" if "tensor" in b else "buffer"
            line = kernel["name"], kind, str(b["index"]), b["name"], b["constant"]
            if kind == "tensor":
                line += str(TENSOR_TYPES[b["tensor"]["element"]]), str(len(b["tensor"]["extents"]))
            lines.append(line)
        for c in kernel["constants"]:
            lines.append((kernel["name"], "constant", str(c["index"]), c["name"], str(int(c["required"]))))
    text = "".join("\\t".join(line) + "\\n" for line in lines)
    return f'extern "C" __attribute__((visibility("default"))) const char mpsx_emulated_reflection[] = "{text}";\n'


def kernel_library(source: Path, target: Path, keep: bool = True) -> Path:
    """Compile a Metal file to a shared library that replaces a metallib. If `keep` is set, reuse a cached library."""
    tools = "".join(p.read_text() for p in (*sorted(TRANSLATOR.rglob("*.py")), Path(__file__)))
    stamp = target.with_suffix(".stamp")
    name = digest(source.read_text(), tools)
    if keep and target.exists() and stamp.exists() and stamp.read_text() == name:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    compiler = find_compiler()
    text, _ = preprocess(str(source), [str(ROOT / "metal")], [], compiler.preprocessor())
    translated = translate_library(Source(text), "simt", "clang", "emulated")
    work = target.parent / f"{target.stem}-{os.getpid()}"
    code, calls, library = (Path(f"{work}{suffix}") for suffix in (".cpp", "-calls.cpp", ".so"))
    parts = [path.with_suffix(".o") for path in (code, calls)]
    try:
        code.write_text(translated.text)
        calls.write_text('#include "metal_stdlib/simt_calls.h"\n' + reflection(translated.kernels))
        flags = compiler.flags("baseline", "simt", general=True) + (TENSOR_FLAGS if uses_tensors(text) else [])
        for path, part in zip((code, calls), parts, strict=True):
            run(*compiler.command, *flags, "-c", str(path), "-o", str(part))
        run(toolchain()[0], "-shared", "-nostdlib", *map(str, parts), "-o", str(library))
        library.replace(target)
    finally:
        for path in (code, calls, *parts, library):
            path.unlink(missing_ok=True)
    if keep:
        stamp.write_text(name)
    return target


def flattened(files: list[Path], target: Path) -> Path:
    """Flatten kernel files into a single source, which the emulated driver compiles on first use."""
    command = find_compiler().preprocessor()
    run(sys.executable, str(ROOT / "tools" / "msl.py"), "flatten", *map(str, files), "-I", str(ROOT / "metal"),
        "-o", str(target), "--preprocessor", command)  # fmt: skip
    return target


def build_package_library(name: str, flags: tuple[str, ...]) -> Path:
    """Build libmpsx.so with a sanitizer, incrementally, using the emulation's compiler."""
    compiler, _, _ = toolchain()
    folder = OUTPUT / f"package-{name}"
    options = {"CMAKE_BUILD_TYPE": "Release", "CMAKE_CXX_FLAGS_RELEASE": "-O1 -g1", "CMAKE_CXX_COMPILER": compiler,
               "CMAKE_CXX_FLAGS": " ".join(flags), "CMAKE_C_COMPILER": compiler.replace("clang++", "clang"),
               "Python_EXECUTABLE": sys.executable}  # fmt: skip
    run("cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", *(f"-D{k}={v}" for k, v in options.items()))
    run("cmake", "--build", str(folder), "--target", "lib/libmpsx.so", "-j", str(os.cpu_count() or 2))
    return folder / "lib" / "libmpsx.so"


def simt_library(package: Path) -> Path:
    """Return the package's kernel library for simt, compiling it first if necessary."""
    path = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))
    code = "from mpsx.shader import kernel_library; print(kernel_library.library('simt'))"
    found = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=path), stdout=subprocess.PIPE,
                           text=True, check=True)  # fmt: skip
    return Path(found.stdout.strip())


def link_package(package: Path, site: Path, sources: Path | None = None, library: Path | None = None) -> None:
    """Create a copy of the installed package in `site`, made of links. Its Metal library is the simt library, or
    `sources` (an mpsx.metal file) if given.

    `library` replaces the package's libmpsx.so.
    """
    libraries = package / "lib"
    copy = site / "mpsx"
    (copy / "lib").mkdir(parents=True, exist_ok=True)
    wanted = {copy / p.name: p for p in package.iterdir() if p.name not in ("lib", "__pycache__")}
    wanted |= {copy / "lib" / p.name: p for p in libraries.iterdir()}
    wanted[copy / "lib" / ("mpsx.metal" if sources else "mpsx.metallib")] = sources or simt_library(package)
    if not sources:
        wanted[copy / "lib" / "mpsx_tensor.metallib"] = simt_library(package)  # it contains both tiers
    if library:
        wanted[copy / "lib" / "libmpsx.so"] = library
    for at, target in wanted.items():
        if at.is_symlink():
            if os.readlink(at) == str(target.resolve()):
                continue
            at.unlink()
        at.symlink_to(target.resolve())


def environment(package: Path, site: Path = OUTPUT / "site", sources: Path | None = None) -> dict[str, str]:
    """Return the environment variables for running `package` with MPSX_DRIVER=metal on emulated Metal."""
    library = build_library()
    link_package(package, site, sources)
    return variables(site, [library])


def sanitized_environment(package: Path, kind: str, flags: tuple[str, ...], driver: Path = DRIVER,
                          whole: bool = False) -> dict[str, str]:  # fmt: skip
    """Return `environment` with clang's sanitizer `kind` enabled for the emulation and the driver (or a modified copy
    of it). If `whole` is set, also sanitize libmpsx.so, which takes ten minutes to compile."""
    flags = (*flags, "-shared-libsan")
    name = {"thread": "tsan", "undefined": "ubsan_standalone"}[kind]
    runtime = subprocess.run([toolchain()[0], f"-print-file-name=libclang_rt.{name}-{platform.machine()}.so"],
                             capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip
    if not os.path.isabs(runtime):
        raise Unavailable(f"no {runtime} (Debian: libclang-rt-19-dev)")
    site = OUTPUT / f"site-{kind}"
    link_package(package, site, library=build_package_library(kind, flags) if whole else None)
    return variables(site, [Path(runtime), build_library(driver, flags)])


def variables(site: Path, preloaded: list[Path]) -> dict[str, str]:
    """Return the environment variables for a package in `site`."""
    return dict(
        os.environ,
        MPSX_DRIVER="metal",
        # The emulation tracks ownership per buffer, so tensors of different threads must not share a buffer.
        MPSX_METAL_EXACT_BUFFERS=os.environ.get("MPSX_METAL_EXACT_BUFFERS", "1"),
        LD_PRELOAD=os.pathsep.join(filter(None, [*map(str, preloaded), os.environ.get("LD_PRELOAD")])),
        PYTHONPATH=os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])),
        MPSX_EMULATION_COMPILER=f"{sys.executable} {Path(__file__).with_name('emulated_metal_compiler.py')}",
    )


if __name__ == "__main__":
    try:
        print(build_library())
    except Unavailable as e:
        sys.exit(str(e))
