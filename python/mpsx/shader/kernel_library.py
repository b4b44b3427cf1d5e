"""Kernel libraries for CPUs and NVIDIA GPUs, either installed or built on first use from the package's sources.

An installation contains the library for the machine on which it was built. If the simt or cuda driver, a different CPU,
or MPSX_ISA requires a different library, mpsx translates and compiles it once and keeps it in the cache (cache.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..msl.compiler import Compiler
    from .cache import Cache

PACKAGE = Path(__file__).parent.parent
SOURCES = PACKAGE / "metal"
RECORD = "library.json"  # this file next to a library contains the library's hash
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
OBJECT_CACHE_BYTES = 1 << 29
UNUSED_SECONDS = 14 * 86400.0
ENTRY = re.compile(r"^(static MPSX_ENTRY void .*\{\n)(?:  .*\n)+\}\n", re.M)  # matches a function that calls a kernel
# Programs that only run shaders set this before the driver starts, to avoid compiling mpsx's own kernels for simt.
shaders_only = False


def folder() -> str:
    """Return the folder with the libraries for this process's driver. Builds missing libraries."""
    installed, driver = PACKAGE / "lib", os.environ.get("MPSX_DRIVER") or "host"
    if driver == "simt":
        profiled = os.environ.get("MPSX_SIMT_PROFILE", "0") not in ("", "0")  # the profiler compiles kernels one by one
        return str(library("simt", [] if shaders_only else None, bodies=not profiled).parent)
    if driver == "cuda" and not (installed / file_name("cuda")).exists():
        return str(library("cuda").parent)
    if driver == "host" and sys.platform == "linux":
        from ..msl.compiler import supported_isas

        here = supported_isas()
        forced = os.environ.get("MPSX_ISA")
        wanted = here if forced in (None, "", "all") else [forced]  # "all" is a value for builds
        if wanted[0] in here and not any((installed / file_name(isa)).exists() for isa in wanted):
            return str(library(wanted[0]).parent)
    return str(installed)


def file_name(name: str) -> str:
    """Return the file name of a library. `name` is an instruction set, "simt" or "cuda"."""
    if name == "cuda":
        return "mpsx.ptx"
    return f"libmpsx_kernels_{name}{SUFFIX}"


def library(name: str, files: list[Path] | None = None, bodies: bool = True) -> Path:
    """Find a library in the cache, or build it from all sources or from `files`. Only one process builds; others wait.

    If `bodies` is false, the kernels do nothing, but launchers can still query them.
    """
    import fcntl

    from . import cache, toolchain

    store = cache.current_cache()
    if files is None:
        files = sorted(path for path in SOURCES.rglob("*") if path.suffix in (".metal", ".h", ".def"))
    contents = (part for path in files for part in (str(path.relative_to(SOURCES)), path.read_bytes()))
    kind = name if bodies else f"{name} without bodies"
    key = cache.digest(kind, toolchain.translator_hash(str(store.folder)), *contents)

    def built(store: Cache) -> Path:
        here = store.subfolder("kernels", 0).subfolder(key[:32], 0)
        target = here.path(file_name(name))
        if not _is_intact(here, target):
            with open(here.path("lock"), "w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    _print_status(f"waiting for another process that is compiling the kernels for {name}")
                    fcntl.flock(lock, fcntl.LOCK_EX)
                if not _is_intact(here, target):
                    _Build(name, store, bodies).run(_sources(files, name), target)
                    here.write(RECORD, {"hash": cache.file_digest(target)})
        store.touch(target)
        return target

    return cache.with_fallback_cache(store, built)


def _sources(files: list[Path], name: str) -> list[Path]:
    """Return the Metal files that belong to a library. CPU libraries do not contain the tensor tier."""
    from ..msl.compiler import is_tensor_source

    return [path for path in files if path.suffix == ".metal"
            and (name in ("simt", "cuda") or not is_tensor_source(path.name))]  # fmt: skip


def _is_intact(here: Cache, target: Path) -> bool:
    """Return whether a library exists and matches its recorded hash."""
    from . import cache

    record = here.read(RECORD)
    with contextlib.suppress(OSError):
        return record is not None and cache.file_digest(target) == record["hash"]
    return False


def _print_status(text: str, end: str = "\n") -> None:
    print(f"mpsx: {text}", end=end, file=sys.stderr, flush=True)


class _Build:
    """Builds one library."""

    def __init__(self, name: str, store: Cache, bodies: bool) -> None:
        from ..msl.compiler import supported_isas
        from . import toolchain

        self.name, self.mode = name, name if name in ("simt", "cuda") else "wide"
        self.isa = name if name != "simt" else "x86-64-v3" if "x86-64-v3" in supported_isas() else "baseline"
        self.on_gpu, self.bodies = name == "cuda", bodies
        try:
            self.compiler: Compiler = toolchain.find_compiler(store)
        except RuntimeError as error:
            raise RuntimeError(f"no kernels for {name} are installed, and none can be compiled: {error}") from None
        # Call zig's driver, because it can target a PTX version older than clang's newest.
        self.clang = list(self.compiler.command) if self.on_gpu else self.compiler.clang
        self.flags = self.compiler.flags("cuda") if self.on_gpu else self.compiler.clang_flags(self.isa, self.mode)
        if self.mode == "simt":
            self.flags.append("-DMPSX_SIMT=1")
        self.stamp = toolchain.compiler_stamp() + toolchain.headers_hash(str(store.folder))
        self.objects = store.subfolder("objects", OBJECT_CACHE_BYTES)
        self.work = Path(store.temporary())
        self.header: list[str] = []

    def run(self, sources: list[Path], target: Path) -> None:
        """Translate and compile `sources` on all cores, and link the result to `target`."""
        import shutil
        import time
        from concurrent.futures import ThreadPoolExecutor

        from ..msl.translate import write_index

        started, title = time.monotonic(), f"compiling the kernels for {self.name}"
        if sources:
            _print_status(f"{title} (once; takes minutes)")
        try:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                header = pool.submit(self.precompile)
                translated = [path for paths in pool.map(self.translate, sources) for path in paths]
                todo = [(Path(path), target) for path in translated for target in self.targets(path)]
                todo.sort(key=lambda item: -item[0].stat().st_size)
                if not self.on_gpu:
                    todo.insert(0, (self.work / "index.cpp", ""))
                    write_index(todo[0][0], translated)
                self.header = header.result()
                objects = []
                for compiled in pool.map(self.compile, todo):
                    objects.append(compiled)
                    if sys.stderr.isatty():
                        _print_status(f"{title}: {len(objects)} of {len(todo)}", "\r")
            linked = self.work / target.name
            self.link(linked, [path for path, _ in todo], objects)
            os.replace(linked, target)
        finally:
            shutil.rmtree(self.work, ignore_errors=True)
        self.objects.trim()
        for other in target.parents[1].iterdir():
            if time.time() - max(path.stat().st_mtime for path in (other, *other.iterdir())) > UNUSED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
        if sources:
            _print_status(f"compiled the kernels for {self.name} in {time.monotonic() - started:.0f} seconds")

    def link(self, linked: Path, sources: list[Path], objects: list[Path]) -> None:
        """Link the objects, or pack the PTX files, into the library."""
        if self.on_gpu:
            from ..msl.ptx import pack_files

            return pack_files(linked, sources, objects, self.compiler.description)
        libraries = [] if self.compiler.is_zig else ["-lgcc"]
        return self.call([*self.compiler.link(), "-o", str(linked), *map(str, objects), *libraries])

    def call(self, command: list[str]) -> None:
        """Run a compiler."""
        from ..msl import processes
        from . import cache

        status, _, errors = processes.run(command, env=processes.with_caches_in(self.work))
        if status:
            cache.check_room(self.objects.folder, status, errors)
            raise RuntimeError(f"cannot compile the kernels for {self.name}: {errors.strip()}")

    def targets(self, translated: str) -> list[str]:
        """Return the GPU architectures to compile a file for. Tensor operations use instructions that only Hopper
        has."""
        from ..msl.compiler import is_tensor_source

        return ["", "sm_90a"] if self.on_gpu and is_tensor_source(Path(translated).name) else [""]

    def translate(self, source: Path) -> list[str]:
        """Translate a Metal file, and return the paths of the C++ files."""
        import shlex

        from ..msl.translate import translate

        name = "_".join(source.relative_to(SOURCES).with_suffix("").parts)
        written = translate(str(source), str(self.work / f"{name}.cpp"), [str(SOURCES)], [],
                            shlex.join(self.compiler.clang), None, name, str(SOURCES.parent), self.mode)[0]  # fmt: skip
        for path in written if not self.bodies else ():
            Path(path).write_text(ENTRY.sub(r"\1}\n", Path(path).read_text()))
        return written

    def precompile(self) -> list[str]:
        """Precompile the Metal standard library, and return the flags that include it. Return [] for compilers other
        than clang, which do not support this."""
        if "clang" not in self.compiler.description or self.on_gpu:
            return []
        header = PACKAGE / "metal_stdlib" / "msl.h"
        written = str(self.work / "msl.pch")
        self.call([*self.compiler.clang, *self.flags, "-x", "c++-header", str(header), "-o", written])
        return ["-include-pch", written]

    def compile(self, job: tuple[Path, str]) -> Path:
        """Compile a C++ file for one architecture to an object or PTX file, or find the result in the cache."""
        from ..msl.compiler import is_tensor_source
        from .cache import digest

        source, target = job
        defines = [f'-DMPSX_KERNEL_ISA="{self.isa}"', f'-DMPSX_KERNEL_COMPILER="{self.compiler.description}"']
        flags = self.flags + (defines if source.name == "index.cpp" else [])
        flags += self.compiler.source_flags(source.name, self.mode, target)
        header = [] if is_tensor_source(source.name) else self.header  # different C++ standard
        suffix, output = (".ptx", "-S") if self.on_gpu else (".o", "-c")
        name = digest(source.read_bytes(), self.stamp, *flags) + suffix
        found = self.objects.get(name)
        if found is None:
            written = source.with_suffix(f".{target}{suffix}" if target else suffix)
            self.call([*self.clang, *flags, *header, output, str(source), "-o", str(written)])
            found = self.objects.put(written, name)
        return found
