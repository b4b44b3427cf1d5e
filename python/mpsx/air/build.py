"""Compile a metallib's kernel to a kernel library for the host or simt driver, or find the library in the cache."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from ..shader import toolchain
from ..shader.cache import Cache, digest, with_fallback_cache
from ..shader.compiler import Builder, SharedFile
from ..shader.constants import is_missing
from ..shader.toolchain import Target
from . import bitcode, constants, entry, ir, kernel, lower
from .ir import AirError
from .metallib import Function

PACKAGE = Path(__file__).parent
RUNTIME = toolchain.METAL_STDLIB / "air"


@dataclass(frozen=True)
class Parsed:
    """A function of a metallib together with its parsed module."""

    module: ir.Module
    kernel: kernel.Kernel


def parse(function: Function, clang: list[str]) -> Parsed:
    """Parse a function's module. Raise AirError with the reason if it cannot run here."""
    if function.kind != "kernel":
        raise AirError(f"expected a kernel, got a {function.kind} function")
    module = ir.parse(bitcode.disassemble(function.bitcode, function.sha256, clang))
    return Parsed(module, kernel.read(module, function.name))


def lowered_text(parsed: Parsed, texts: dict[object, str], mode: str, compiler: str, isa: str) -> tuple[str, bool]:
    """Return a kernel library as LLVM IR that calls the runtime, src/metal_stdlib/air, and whether it runs the threads
    in a loop. `texts` has values of function constants by name or index."""
    defined = constants.definitions(parsed.kernel, texts)
    lowered = lower.Lowering(parsed.module, parsed.kernel.symbol, defined).run(parsed.kernel.name)
    text = f"{lowered.text}\n{entry.entry_point(parsed.kernel, lowered, mode, compiler, isa)}"
    return text, entry.runs_as_loop(parsed.kernel, lowered, mode)


class KernelBuilder:
    """Builds the kernels of a metallib. `name` is the file name to use in messages."""

    def __init__(self, cache: Cache, target: Target, name: str) -> None:
        self.cache, self.target, self.name = cache, target, name
        self.builder = Builder(cache, target, [], name, "")
        if "clang" not in self.builder.compiler.description:
            raise RuntimeError(f"mpsx.load_metallib: expected clang to compile LLVM IR, got "
                               f"{self.builder.compiler.description}; `pip install 'mpsx[shader]'` installs ziglang")
        # A kernel is looked up first, and then again with values of its function constants.
        self.parse = functools.lru_cache(maxsize=1)(functools.partial(parse, clang=self.builder.clang))

    def description(self, function: Function) -> dict:
        """Describe a kernel in the format of msl/library.py. Raise AirError with the reason if it cannot run here."""
        parsed = self.parse(function)
        lowered_text(parsed, {}, "auto", "", "")
        return parsed.kernel.describe(self.name)

    def library(self, function: Function, texts: dict[object, str]) -> tuple[str | None, dict]:
        """Return the path of a kernel's library, specialized for function constants (values by name or index), and the
        kernel's description. The path is None if a required constant has no value."""
        key = "air-" + digest(function.bitcode, function.name, self.name, self.target.isa, self.target.mode,
                              toolchain.compiler_stamp(), toolchain.headers_hash(str(self.cache.folder)),
                              translator_hash(), *sorted(f"{n}={text}" for n, text in texts.items()))[:40]  # fmt: skip

        def built(cache: Cache) -> tuple[str | None, dict]:
            record = cache.read(f"{key}.json")
            path = cache.find(record["library"]) if record and record["library"] else None
            if record is None or (record["library"] and path is None):
                parsed = self.parse(function)
                text, loop = lowered_text(parsed, texts, self.target.mode, self.builder.compiler.description, self.isa)
                description = parsed.kernel.describe(self.name)
                path = None if is_missing(description, texts) else self.compile(text, loop, cache)
                record = {"library": path.name if path else "", "kernel": description}
                cache.write(f"{key}.json", record)
                cache.trim()
            return path and str(path), record["kernel"]

        return with_fallback_cache(self.cache, built)

    @property
    def isa(self) -> str:
        """The instruction set that the library targets."""
        return "baseline" if self.target.mode == "simt" else self.target.isa

    def compile(self, text: str, loop: bool, cache: Cache) -> Path:
        """Compile LLVM IR to a shared library in the cache. Apple's compiler has optimized it already, so that only
        vectorizing a loop over threads is worth the time of -O3."""
        builder = self.builder
        with builder.working_folder() as folder:
            # Optimize the runtime in advance. simt inserts checks after inlining it into the kernel.
            passes = ["-Xclang", "-disable-llvm-passes"] if self.target.mode == "simt" else ["-O1"]
            runtime = self.start_file(folder, "runtime.h", "air.bc", "-emit-llvm", *passes)
            calls = self.start_file(folder, "calls.h", "air.o")
            code, written, library = folder / "kernel.ll", folder / "kernel.o", folder / "kernel.so"
            code.write_text(text)
            linked = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(builder.finish(runtime))]
            flags = [*builder.flags(), *([] if loop else ["-O1"])]
            builder.run([*builder.clang, *flags, "-x", "ir", "-c", str(code), *linked, "-o", str(written)])
            libraries = [] if builder.compiler.is_zig else ["-lgcc"]
            builder.run([*builder.compiler.link(), str(written), str(builder.finish(calls)), "-o", str(library),
                         *libraries])  # fmt: skip
            return cache.store(library)

    def start_file(self, folder: Path, header: str, name: str, *flags: str) -> SharedFile:
        """Start compiling one of the runtime's files, unless it is in the cache."""
        version = f"-DMPSX_AIR_VERSION={runtime_hash()[:16]}"  # identifies the file in the cache
        arguments = ["-x", "c++", "-c", *flags, version, str(RUNTIME / header)]
        return self.builder.start_file(folder, name, arguments)


@functools.cache
def translator_hash() -> str:
    """Hash this package and the runtime."""
    return digest(runtime_hash(), *(path.read_bytes() for path in sorted(PACKAGE.glob("*.py"))))


@functools.cache
def runtime_hash() -> str:
    """Hash the runtime."""
    return digest(*(path.read_bytes() for path in sorted(RUNTIME.glob("*.h"))))
