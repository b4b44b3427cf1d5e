"""Compile one kernel with instrumentation, or find the result in the disk cache.

The kernel is translated for the simt driver and optimized as for a GPU. Then instrument.py inserts calls, and clang
compiles the result without further optimization, so the calls count what a GPU would execute."""

from __future__ import annotations

import functools
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ..msl import processes
from ..shader import build as shader_build
from ..shader import cache as shader_cache
from ..shader import kernel_library, toolchain
from .instrument import Facts, instrument

if TYPE_CHECKING:
    from ..msl.compiler import Compiler
    from ..msl.source import Source

CACHE_BYTES = 1 << 28
SOURCES = ("build.py", "debug_lines.py", "instrument.py", "wide_accesses.py")  # part of the cache key
# Disable vectorization and type-based alias analysis, as for a GPU (CUDA_FLAGS in msl/compiler.py). The report needs
# line tables. clang makes file names relative to the compilation directory, and "/" keeps them absolute.
FLAGS = """-g1 -gdwarf-4 -fdebug-compilation-dir=/ -fno-vectorize -fno-slp-vectorize -fno-strict-aliasing
    -mllvm -disable-vector-combine -DMPSX_SIMT=1""".split()
LOOP_HINTS = """
#undef MPSX_VECTORIZE_LOOP
#define MPSX_VECTORIZE_LOOP
#undef MPSX_REDUCE_LOOP
#define MPSX_REDUCE_LOOP(...)
#undef MPSX_UNROLL_LOOP
#define MPSX_UNROLL_LOOP _Pragma("unroll")
#undef MPSX_UNROLL_BY
#define MPSX_UNROLL_BY(n) MPSX_PRAGMA(unroll(n))
"""
CALLS = """
#include "metal_stdlib/profile_abi.h"
extern "C" {
__attribute__((visibility("hidden"))) const mpsx_profile_calls* mpsx_profile_calls_here = nullptr;
void mpsx_profile_access(const void* p, unsigned site) { mpsx_profile_calls_here->access(p, site); }
void mpsx_profile_range(const void* p, unsigned long n, unsigned site) { mpsx_profile_calls_here->range(p, n, site); }
void mpsx_profile_block(unsigned block) { mpsx_profile_calls_here->block(block); }
extern __attribute__((visibility("default"))) const mpsx_profile_table_t mpsx_profile_table;
const mpsx_profile_table_t mpsx_profile_table = {MPSX_PROFILE_ABI_VERSION, sizeof(sites) / sizeof(*sites) - 1, BLOCKS,
                                                 sites, &mpsx_profile_calls_here};
}
"""
KINDS = {"load": "MPSX_PROFILE_LOAD", "store": "MPSX_PROFILE_STORE", "atomic": "MPSX_PROFILE_ATOMIC"}


def find(library: str, kernel: str) -> str:
    """Compile a kernel of `library` for profiling. Return the path of the resulting library."""
    from ..msl.source import Source

    store = shader_cache.current_cache()
    compiler = toolchain.find_compiler(store)
    if "clang" not in compiler.description:
        raise RuntimeError("kernel profiling needs clang: pip install ziglang")
    if Path(library).name.startswith("libmpsx_kernels_"):
        source = Source(text_of(source_of(kernel, compiler), compiler))
        return shader_cache.with_fallback_cache(store, lambda store: _Build(store, compiler, False).run(source, kernel))
    shader = shader_build.sources.get(library)
    if shader is None:
        raise RuntimeError(f"{kernel}: the source of {library} is missing")

    def build(store: shader_cache.Cache) -> str:
        return _Build(store, compiler, True).run(shader_build.preprocessed(store, shader), kernel)

    return shader_cache.with_fallback_cache(store, build)


@functools.cache
def _text(path: Path, _newest: int, command: str) -> str:
    from ..msl.preprocess import preprocess

    text, _ = preprocess(str(path), [str(kernel_library.SOURCES)], [], command)
    return text.replace(f'"{kernel_library.SOURCES.parent}/', '"')


@functools.cache
def _names(text: str) -> set[str]:
    from ..msl.kernels import collect_kernels
    from ..msl.source import Source

    return {instance.host_name for instance in collect_kernels(Source(text)).instances}


def text_of(path: Path, compiler: Compiler) -> str:
    """Return one of the project's files as preprocessed text."""
    newest = max(file.stat().st_mtime_ns for file in kernel_library.SOURCES.rglob("*.*"))
    return _text(path, newest, shlex.join(compiler.clang))


def source_of(kernel: str, compiler: Compiler) -> Path:
    """Find the project's file that defines a kernel. Macros assemble kernel names, so try the files first whose text or
    .def table contains the longest prefix of the name."""
    words = kernel.split("_")

    def unmatched(path: Path) -> int:
        table = path.with_suffix(".def")
        text = path.read_text() + (table.read_text() if table.exists() else "")
        return -max((n for n in range(len(words) + 1) if "_".join(words[:n]) in text), default=0)

    for path in sorted(kernel_library.SOURCES.rglob("*.metal"), key=unmatched):
        if kernel in _names(text_of(path, compiler)):
            return path
    raise RuntimeError(f"{kernel}: no source file defines this kernel")


def facts_of(library: str) -> Facts:
    """Load the descriptions of a library's memory-access sites and basic blocks. Counts refer to these by number."""
    path = Path(library)
    record = shader_cache.Cache(path.parent, 0).read(path.with_suffix(".json").name)
    if record is None:
        raise RuntimeError(f"{path.with_suffix('.json')} is damaged; restart the process to compile the kernel again")
    return Facts([(kind, size, tuple(map(tuple, places))) for kind, size, places in record["sites"]],
                 [(instructions, lines) for instructions, lines in record["blocks"]])  # fmt: skip


class _Build:
    """Builds one kernel."""

    def __init__(self, store: shader_cache.Cache, compiler: Compiler, general: bool) -> None:
        self.compiler, self.general = compiler, general
        self.cache = store.subfolder("profiles", CACHE_BYTES)
        own = b"".join(Path(__file__).with_name(name).read_bytes() for name in SOURCES)
        self.stamp = shader_cache.digest(toolchain.compiler_stamp(), own,
                                         toolchain.translator_hash(str(store.folder)))  # fmt: skip

    def run(self, src: Source, kernel: str) -> str:
        """Build the library and return its path. Also write the .json file next to it, which facts_of() reads."""
        key = shader_cache.digest(self.stamp, src.text, kernel, str(self.general))[:40]
        library = self.cache.get(key)
        if library and self.cache.read(library.with_suffix(".json").name):
            self.cache.touch(library.with_suffix(".json"))
            return str(library)
        folder = Path(self.cache.temporary())
        try:
            (folder / "kernel.cpp").write_text(self.translate(src, kernel))
            flags = self.flags(src.text)
            self.call(*flags, "-include-pch", self.header(flags), "-S", "-emit-llvm", folder / "kernel.cpp", "-o",
                      folder / "kernel.ll")  # fmt: skip
            text, found = instrument((folder / "kernel.ll").read_text())
            (folder / "counting.ll").write_text(text)
            (folder / "calls.cpp").write_text(self.tables(found))
            self.call("-x", "ir", "-O1", "-fPIC", "-Xclang", "-disable-llvm-passes", "-mllvm",
                      "-disable-block-placement", "-c", folder / "counting.ll", "-o", folder / "kernel.o")  # fmt: skip
            self.call(*flags, "-c", folder / "calls.cpp", "-o", folder / "calls.o")
            self.execute([*self.compiler.link(), str(folder / "kernel.o"), str(folder / "calls.o"), "-o",
                          str(folder / "kernel.so"), *([] if self.compiler.is_zig else ["-lgcc"])])  # fmt: skip
            library = self.cache.put(folder / "kernel.so", key)
            self.cache.write(library.with_suffix(".json").name, {"sites": found.sites, "blocks": found.blocks})
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.cache.trim()
        return str(library)

    def flags(self, source: str) -> list[str]:
        """Return the flags for the first compilation: the simt driver's flags for this source, plus FLAGS."""
        from ..msl.compiler import TENSOR_FLAGS, supported_isas
        from ..msl.passes.tensors import uses_tensors

        isa = "x86-64-v3" if "x86-64-v3" in supported_isas() else "baseline"
        flags = [flag for flag in self.compiler.clang_flags(isa, "auto", self.general)
                 if flag not in ("-g0", "-fopenmp-simd")]  # fmt: skip
        tensors = TENSOR_FLAGS if uses_tensors(source) else []
        return [*flags, *tensors, *FLAGS, *(["-DMPSX_GENERAL=1"] if self.general else [])]

    def header(self, flags: list[str]) -> Path:
        """Return the path of the precompiled Metal standard library."""
        name = f"{shader_cache.digest(self.stamp, *flags)[:40]}.pch"
        found = self.cache.get(name)
        if found is None:
            folder = Path(self.cache.temporary())
            try:
                self.call(*flags, "-Xclang", "-fno-pch-timestamp", "-x", "c++-header", toolchain.METAL_STDLIB / "msl.h",
                          "-o", folder / name)  # fmt: skip
                found = self.cache.put(folder / name, name)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return found

    def call(self, *arguments: object) -> None:
        """Run the compiler."""
        self.execute([*self.compiler.clang, *map(str, arguments)])

    def execute(self, command: list[str]) -> None:
        """Run a command."""
        status, _, errors = processes.run(command)
        if status:
            shader_cache.check_room(self.cache.folder, status, errors)
            raise RuntimeError(f"cannot compile a kernel for profiling: {errors.strip()}")

    def translate(self, src: Source, kernel: str) -> str:
        """Return C++ that defines one kernel and exports its table."""
        from ..msl.kernels import collect_kernels
        from ..msl.library import export
        from ..msl.lowering import lower
        from ..msl.translate import emitter_of, macros, namespace_of

        module = collect_kernels(src)
        lower(src, module, shared=True, general=self.general)
        emitter = emitter_of(module.unit, "simt", self.general)
        mine = [instance for instance in module.instances if instance.host_name == kernel]
        opening, closing, prefix = namespace_of("k", self.general)
        entries = emitter.entries(mine, module)
        return (f'{macros(src, "simt", self.general)}#include "metal_stdlib/msl.h"\n{LOOP_HINTS}{opening}\n'
                f"MPSX_USER_CODE_BEGIN\n{src.result()}\nMPSX_USER_CODE_END\n{entries}{closing}\n"
                f'{emitter.table(mine, "mpsx_records", prefix)}'
                f'{export("mpsx_records", len(mine), self.compiler.description, "")}')  # fmt: skip

    @staticmethod
    def tables(facts: Facts) -> str:
        """Return C++ that defines the functions called by instrumented code."""
        rows = "".join(f"{{{KINDS[kind]}, {size}}},\n" for kind, size, _ in facts.sites)
        return ('#undef MPSX_SIMT\n#include "metal_stdlib/simt_calls.h"\n#include "metal_stdlib/profile_abi.h"\n'
                f"static const mpsx_profile_site sites[] = {{\n{rows}{{0, 0}}}};\n"
                f"#define BLOCKS {len(facts.blocks)}\n{CALLS}")  # fmt: skip
