"""Build kernel libraries from Metal source: preprocess, check, translate, compile.

Only the C++ compiler runs in a separate process. A source with at most AT_ONCE kernels becomes one library. Compiling
all kernels of a larger source would take minutes, so the source is checked and translated to a precompiled header, and
each kernel is compiled into its own library on first use (lazy_kernels.py). The same applies to a source with function
constants, because their values determine the code of the kernels.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..msl import processes
from . import toolchain
from .cache import Cache, check_room, digest
from .interpreter import paused_collection
from .kernel_library import SOURCES
from .toolchain import Target

if TYPE_CHECKING:
    from ..msl.check import Unit
    from ..msl.library import Library

OVERLAYS = "overlays"  # name of the text that includes the overlays
AT_ONCE = 16  # maximum number of kernels to compile together
INITIALIZER = re.compile(r"^(define internal void @(?:__cxx_global_var_init|_GLOBAL__sub_I)[^ ]*\(\)) #\d+", re.M)
INITIALIZED = re.compile(r"^\.func __cxx_global_var_init", re.M)
KERNEL = re.compile(r"\bkernel\s*(?:\]\]\s*)?void\s+(\w+)")


class Builder:
    """Runs one build. `name` is the source's file name in messages. Generated sources need no strict check
    (`strict`)."""

    def __init__(self, cache: Cache, target: Target, includes: list[str], name: str, text: str,
                 strict: bool = True) -> None:  # fmt: skip
        self.cache, self.target, self.includes, self.name, self.strict = cache, target, includes, name, strict
        self.kernels = KERNEL.findall(text)  # used in messages
        self.tensors = False  # whether the source uses Metal 4 tensors
        self.seconds = processes.time_limit()
        try:
            with self.limited():
                self.compiler = toolchain.find_compiler(cache)
        except toolchain.NoCompilerError as error:
            raise RuntimeError(f"mpsx.compile_shader: {error}") from None
        self.clang = self.compiler.clang
        self.started: list[processes.Process] = []
        self.shared: tuple[SharedFile | None, SharedFile | None] = None, None  # set by `translate`

    def build(self, source: str, key: str) -> dict:
        """Build a library or the source for lazy kernels. Return the record that describes it in the cache."""
        from ..msl import check
        from ..msl.check.messages import explain

        texts = {self.name: source}
        with self.working_folder() as folder:
            text, files = self.preprocess(source, folder)
            translation, warnings, finish_check = self.translate(text, texts, folder)
            self.kernels = [kernel["name"] for kernel in translation.kernels]
            record = {
                "includes": [(path, hashlib.sha256(Path(path).read_bytes()).hexdigest()) for path in files],
                "kernels": translation.kernels,
                "warnings": [check.render([d], check.SourceMap("", texts)) for d in warnings],
            }
            shared = [file and self.finish(file) for file in self.shared]
            try:
                if len(translation.kernels) > AT_ONCE or translation.constants:
                    self.check(translation.source, translation.samples(), folder, shared[0])
                    record["source"], record["exports"] = translation.source, translation.parts()
                    record["constants"] = translation.constants
                    record["definitions"] = [dataclasses.astuple(d) for d in translation.definitions]
                else:
                    record["library"] = self.cache.store(self.compile(translation.text, folder, *shared)).name
            except SyntaxError as error:
                self.reject(check.merge(finish_check(), explain(str(error), translation.text, texts)), texts)
                raise
            self.reject(finish_check(), texts)
            self.cache.write(f"{key}.json", record)
        self.cache.trim()
        return record

    # The translator allocates many objects without cycles, and each full collection would also visit the objects of all
    # loaded modules, such as torch's, which takes 0.1 s.
    @paused_collection
    def translate(self, text: str, texts: dict[str, str], folder: Path) -> tuple[Library, list, Callable[[], list]]:
        """Check and translate a preprocessed source, while the files in `shared` are compiled. Return the translation,
        the warnings, and a function that waits for the address space check."""
        from ..msl import check
        from ..msl.library import translate_library
        from ..msl.passes.tensors import uses_tensors
        from ..msl.program_scope import read_source
        from ..msl.source import MslError

        try:
            src = read_source(text)
            self.tensors = uses_tensors(text)
            self.shared = self.start_shared_files(folder, text)
            unit = check.unit_of(src) if self.strict else None
        except MslError as error:
            self.reject(check.from_text(str(error)), texts)
            raise SyntaxError(str(error)) from None
        finish_check, warnings = self.start_check(unit, texts) if unit else (list, [])
        try:
            translation = translate_library(src, self.target.mode, self.compiler.description, self.target.isa,
                                            specialize=True, tree=unit and unit.tree)  # fmt: skip
        except MslError as error:
            self.reject(check.merge(check.from_text(str(error)), finish_check()), texts)
            raise SyntaxError(str(error)) from None
        return translation, warnings, finish_check

    def start_check(self, unit: Unit, texts: dict[str, str]) -> tuple[Callable[[], list], list]:
        """Check a source, and raise SyntaxError if there are errors. Return the warnings, and a function that waits for
        the address space check, which runs in parallel."""
        from ..msl import check

        many = len(unit.tree.instantiations) > AT_ONCE
        spaces = check.AddressSpaceCheck(unit, self.compiler.command, texts, many)
        self.started += [spaces.process] if spaces.process else []
        found = check.check_unit(unit, texts)
        errors = [d for d in found if d.kind == "error"]
        if errors:
            self.reject(check.merge(errors, spaces.wait()), texts)
        return spaces.wait, [d for d in found if d.kind == "warning"]

    def build_kernel(self, source: str, exports: str, kernel: str, name: str) -> Path:
        """Compile one kernel of a translated source and cache its library as `name`. `exports` is the code that exports
        it."""
        from ..msl.check.messages import explain
        from ..msl.passes.tensors import uses_tensors

        self.kernels, self.tensors, text = [kernel], uses_tensors(source), source + exports
        with self.working_folder() as folder:
            try:
                header, calls = (file and self.finish(file) for file in self.start_shared_files(folder, source))
                if header:
                    header, text = self.finish(self.start_source(source, folder, header)), exports
                library = self.compile(text, folder, header, calls)
            except SyntaxError as error:
                self.reject(explain(str(error), source + exports), {})
                raise
            path = self.cache.put(library, name)
        self.cache.trim()
        return path

    def check(self, source: str, exports: str, folder: Path, header: Path | None) -> None:
        """Let the compiler check a translated source followed by `exports`. Raise SyntaxError with its error
        messages."""
        from ..msl.check.messages import CLANG_FLAGS, FLAGS

        flags = [*self.flags(), *(CLANG_FLAGS if "clang" in self.compiler.description else FLAGS), "-fsyntax-only"]
        if header:
            flags += ["-include-pch", str(self.finish(self.start_source(source, folder, header)))]
        self.run([*self.clang, *flags, "-x", "c++", "-"], exports if header else source + exports)

    @contextlib.contextmanager
    def limited(self) -> Iterator[None]:
        """If a compiler exceeds the time limit, raise an error that names the source and its kernels."""
        try:
            yield
        except processes.TimeLimitError as error:
            kernels = f", kernels {', '.join(self.kernels[:8])}" if self.kernels else ""
            more = f" and {len(self.kernels) - 8} more" if len(self.kernels) > 8 else ""
            raise RuntimeError(f"mpsx.compile_shader: {self.name}{kernels}{more}: {error}") from None

    @contextlib.contextmanager
    def working_folder(self) -> Iterator[Path]:
        """Create a temporary folder. On exit, delete it and kill processes that are still running."""
        folder = Path(self.cache.temporary())
        try:
            with self.limited():
                yield folder
        finally:
            for process in self.started:
                process.end()
            self.started.clear()
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def reject(found: Sequence, texts: dict[str, str]) -> None:
        """If there are any diagnostics, raise SyntaxError with them."""
        from ..msl import check

        if found:
            raise SyntaxError(check.render(sorted(set(found)), check.SourceMap("", texts)))

    def flags(self) -> list[str]:
        """Return the flags for the C++ compiler."""
        if self.target.mode == "cuda":
            return [*self.compiler.clang_flags("", "cuda", general=True), *self.tensor_flags()]
        simt = self.target.mode == "simt"
        flags = self.compiler.clang_flags("baseline" if simt else self.target.isa, self.target.mode, general=True)
        return [*flags, *self.tensor_flags(), "-DMPSX_SIMT=1", "-DMPSX_GENERAL=1"]

    def tensor_flags(self) -> list[str]:
        """Return the additional flags for a source that uses tensors."""
        return self.compiler.tensor_flags(self.target.isa, self.target.mode) if self.tensors else []

    def run(self, command: list[str], text: str = "", **options: object) -> str:
        """Run a compiler and return its standard output. If it fails, raise SyntaxError with its messages."""
        process = self.start(command, stdout=subprocess.PIPE, **options)
        out, errors = process.finish(text)
        if process.returncode:
            check_room(self.cache.folder, process.returncode, errors)
            raise SyntaxError(errors.strip() or f"{shlex.join(command)} failed with {process.returncode}")
        return out

    def start(self, command: list[str], **options: object) -> processes.Process:
        """Start a compiler. If it is still running on exit, `working_folder` kills it and its children."""
        self.started.append(processes.Process(command, self.seconds, **options))
        return self.started[-1]

    def preprocess(self, source: str, folder: Path) -> tuple[str, list[str]]:
        """Preprocess a source. Return the text and the included files."""
        from ..msl import overlay
        from ..msl.preprocess import DEFINES, included, write_stubs

        apple = folder / "apple"
        write_stubs(apple)
        command = [*self.clang, "-E", "-x", "c++", "-std=c++17", "-nostdinc", "-undef", f"-I{apple}"]
        command += [f"-I{folder}" for folder in self.includes] + [f"-D{define}" for define in DEFINES] + ["-"]
        text = self.run(command, f'#line 1 "{self.name}"\n{source}\n')
        found = list(included(text))
        overlays = self.overlays(found)
        if overlays:  # the source uses mpsx's own headers, so apply the overlays that the host driver's kernels use
            path = folder / "source.metal"
            path.write_text(source)
            text = self.run(command, f'#line 1 "{OVERLAYS}"\n{overlay.with_overlays(str(path), overlays)}')
            text = overlay.apply_overlays(text, str(path), OVERLAYS).replace(f'"{path}"', f'"{self.name}"')
            found += overlays
        files = [file for file in found if not file.startswith(str(apple))]
        return text.replace(f'"{apple}/', '"'), files  # keep the text independent of the temporary folder

    def overlays(self, files: list[str]) -> list[str]:
        """Return the overlays for those included files that are part of this package."""
        if self.target.mode != "auto":
            return []
        from ..msl.overlay import overlays_of

        own = [file for file in files if Path(file).is_relative_to(SOURCES)]
        return overlays_of(own) if own else []

    def start_shared_files(self, folder: Path, text: str) -> tuple[SharedFile | None, SharedFile | None]:
        """Start compiling the files that all shaders share: the precompiled header of the Metal standard library (only
        for clang), and the functions through which kernels call the SIMT engine (only for CPUs). For NVIDIA GPUs, the
        header depends on what a source uses."""
        header = ["-Xclang", "-fno-pch-timestamp", "-x", "c++-header", str(toolchain.METAL_STDLIB / "msl.h")]
        if self.target.mode == "cuda":
            names = ["SIMT", "GENERAL", "CUDA"] + (["TENSORS"] if self.tensors else [])  # translate.macros
            names += ["THREAD_ELEMENTS"] if re.search(r"\bthread_elements\b", text) else []
            return self.start_file(folder, "msl.pch", [*(f"-DMPSX_{name}=1" for name in names), *header]), None
        is_clang = "clang" in self.compiler.description
        started = self.start_file(folder, "msl.pch", header) if is_clang else None
        return started, self.start_calls(folder)

    def start_calls(self, folder: Path) -> SharedFile:
        return self.start_file(folder, "calls.o", ["-x", "c++", "-c", str(toolchain.METAL_STDLIB / "simt_calls.h")])

    def start_source(self, source: str, folder: Path, library: Path) -> SharedFile:
        """Start precompiling a translated source on top of the standard library's header. Templates are then
        instantiated only once instead of once per kernel."""
        from ..msl.check.messages import CLANG_FLAGS

        header = ["-Xclang", "-fno-pch-timestamp", "-fpch-instantiate-templates", "-include-pch", str(library)]
        return self.start_file(folder, "source.pch", [*CLANG_FLAGS, *header, "-x", "c++-header", "-"], source)

    def start_file(self, folder: Path, name: str, arguments: list[str], text: str = "") -> SharedFile:
        """Find a shared file in the cache, or start compiling it. `text` is the compiler's standard input."""
        command = [*self.clang, *self.flags(), *arguments, "-o"]
        stamp = digest(toolchain.compiler_stamp(), toolchain.headers_hash(str(self.cache.folder)), *command, text)
        file = SharedFile(f"{name}-{stamp[:32]}", folder / name, text)
        file.path = self.cache.get(file.name)
        if file.path is None:
            file.process = self.start([*command, str(file.written)])
        return file

    def finish(self, file: SharedFile) -> Path:
        """Wait until a shared file is compiled, and store it in the cache."""
        if file.path is None:
            errors = file.process.finish(file.text)[1]
            if file.process.returncode:
                check_room(self.cache.folder, file.process.returncode, errors)
            if file.process.returncode and file.text:
                raise SyntaxError(errors.strip())
            if file.process.returncode:
                raise RuntimeError(f"mpsx.compile_shader: cannot compile the Metal standard library: {errors.strip()}")
            file.path = self.cache.put(file.written, file.name)
        return file.path

    def write_ptx(self, command: list[str], code: Path, library: Path) -> None:
        """Compile LLVM IR to a PTX library."""
        from ..msl.ptx import pack_files

        self.run([*command, "-S", "-x", "ir", f"{code}.ll", "-o", f"{code}.ptx"])
        text = Path(f"{code}.ptx").read_text()
        if missing := re.search(r"\.extern \.func\s+(?:\([^)]*\)\s*)?(\w+)", text):
            function = toolchain.undefined_function(f"undefined symbol: {missing[1]}")
            raise SyntaxError(f"{self.name}: error: function '{function}' is called, but not defined")
        if INITIALIZED.search(text):  # a GPU has nothing that runs initializers
            raise SyntaxError(f"{self.name}: error: the compiler cannot evaluate the initializer of a constant that "
                              "depends on function constants; compute its value in the kernel")  # fmt: skip
        # Level 9 would take 0.01 s longer for a matmul.
        pack_files(library, [code], [f"{code}.ptx"], self.compiler.description, level=1)

    def write_ir(self, command: list[str], code: Path) -> None:
        """Compile C++ to unoptimized LLVM IR. Mark functions as noinline if inlining them would make a kernel too
        large."""
        from ..msl.shifts import mask_shifts

        ir = Path(f"{code}.ll")
        self.run([*command, "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes", str(code), "-o", str(ir)])
        # Do not check accesses of initializers. They run while the library is loaded, before simt can check them.
        text = INITIALIZER.sub(r"\1", mask_shifts(ir.read_text()))
        # Tensor accumulators stay in registers only if every function is inlined and every loop is unrolled.
        if not (self.tensors and self.target.mode == "cuda"):
            from ..msl.code_size import limit_code_size

            text = limit_code_size(text, self.target.mode)
        ir.write_text(text)

    def compile(self, text: str, folder: Path, header: Path | None, calls: Path | None) -> Path:
        """Compile translated text to a shared library or a PTX library. `header` is a precompiled header."""
        from ..msl.check.messages import CLANG_FLAGS, FLAGS

        readable = CLANG_FLAGS if "clang" in self.compiler.description else FLAGS
        on_gpu = self.target.mode == "cuda"
        code, written = folder / "shader.cpp", folder / "shader.o"
        library = folder / ("shader.ptx" if on_gpu else "shader.so")
        code.write_text(text)
        command = [*self.clang, *self.flags(), *readable]
        if "clang" in self.compiler.description:
            self.write_ir([*command, "-include-pch", str(header)] if header else command, code)
        if on_gpu:
            self.write_ptx(command, code, library)
            return library
        if "clang" in self.compiler.description:
            self.run([*command, "-c", "-x", "ir", f"{code}.ll", "-o", str(written)])
        else:
            self.run([*command, "-c", str(code), "-o", str(written)])
        libraries = [] if self.compiler.is_zig else ["-lgcc"]
        self.run([*self.compiler.link(), str(written), str(calls), "-o", str(library), *libraries])
        return library


@dataclasses.dataclass
class SharedFile:
    """A cached file that several builds share. If it is not in the cache, a process is compiling it."""

    name: str  # file name in the cache
    written: Path
    text: str = ""  # standard input of the compiler
    path: Path | None = None
    process: processes.Process | None = None
