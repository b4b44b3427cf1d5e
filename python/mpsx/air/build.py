"""Compile a metallib's kernel to a kernel library for the host or simt driver, or find the library in the cache."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from ..shader import toolchain
from ..shader.cache import Cache, digest, with_fallback_cache
from ..shader.compiler import Builder, SharedFile
from ..shader.toolchain import Target
from . import bitcode, entry, ir, kernel, lower
from .ir import AirError
from .metallib import Function

PACKAGE = Path(__file__).parent
RUNTIME = toolchain.METAL_STDLIB / "air"
LARGE = 64000  # length of IR from which -O3 takes longer than half a second; Apple's compiler has already optimized it


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


def lowered_text(parsed: Parsed, mode: str, compiler: str, isa: str) -> str:
    """Return a kernel library as LLVM IR. The IR calls the runtime, src/metal_stdlib/air."""
    constants = {c.symbol for c in parsed.kernel.constants}
    lowered = lower.Lowering(parsed.module, parsed.kernel.symbol, constants).run(parsed.kernel.name)
    return f"{lowered.text}\n{entry.entry_point(parsed.kernel, lowered, mode, compiler, isa)}"


class KernelBuilder:
    """Builds the kernels of a metallib. `name` is the file name to use in messages."""

    def __init__(self, cache: Cache, target: Target, name: str) -> None:
        self.cache, self.target, self.name = cache, target, name
        self.builder = Builder(cache, target, [], name, "")
        if "clang" not in self.builder.compiler.description:
            raise RuntimeError(f"mpsx.load_metallib: expected clang to compile LLVM IR, got "
                               f"{self.builder.compiler.description}; `pip install 'mpsx[shader]'` installs ziglang")

    @property
    def clang(self) -> list[str]:
        """The command that runs clang."""
        return self.builder.clang

    def description(self, function: Function) -> dict:
        """Describe a kernel in the format of msl/library.py. Raise AirError with the reason if it cannot run here."""
        parsed = parse(function, self.clang)
        lowered_text(parsed, "auto", "", "")
        return parsed.kernel.describe(self.name)

    def library(self, function: Function) -> tuple[str, dict]:
        """Return the path of a kernel's library and the kernel's description."""
        key = "air-" + digest(function.bitcode, function.name, self.name, self.target.isa, self.target.mode,
                              toolchain.compiler_stamp(), toolchain.headers_hash(str(self.cache.folder)),
                              translator_hash())[:40]  # fmt: skip

        def built(cache: Cache) -> tuple[str, dict]:
            record = cache.read(f"{key}.json")
            path = cache.find(record["library"]) if record else None
            if path is None:
                parsed = parse(function, self.clang)
                description = parsed.kernel.describe(self.name)
                text = lowered_text(parsed, self.target.mode, self.builder.compiler.description, self.isa)
                path = self.compile(text, cache)
                cache.write(f"{key}.json", {"library": path.name, "kernel": description})
                cache.trim()
            else:
                description = record["kernel"]
            return str(path), description

        return with_fallback_cache(self.cache, built)

    @property
    def isa(self) -> str:
        """The instruction set that the library targets."""
        return "baseline" if self.target.mode == "simt" else self.target.isa

    def compile(self, text: str, cache: Cache) -> Path:
        """Compile LLVM IR to a shared library in the cache."""
        builder = self.builder
        with builder.working_folder() as folder:
            bitcode_flags = ["-emit-llvm", "-Xclang", "-disable-llvm-passes"]
            runtime = self.start_file(folder, "runtime.h", "air.bc", *bitcode_flags)
            calls = self.start_file(folder, "calls.h", "air.o")
            code, written, library = folder / "kernel.ll", folder / "kernel.o", folder / "kernel.so"
            code.write_text(text)
            linked = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(builder.finish(runtime))]
            flags = [*builder.flags(), *(["-O1"] if len(text) > LARGE else [])]
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
