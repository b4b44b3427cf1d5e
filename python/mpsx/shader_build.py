"""From Metal source to a kernel library: preprocess, translate and compile, or find it in the disk cache.

All in this process but for the compiler, which is called three times: to preprocess, to compile (with the Metal
standard library precompiled) and to link.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import shader_cache
from .shader_cache import Cache, digest

if TYPE_CHECKING:
    from .msl.compiler import Compiler
    from .msl.source import Source

TRANSLATOR = Path(__file__).parent / "msl"
LIBRARY = Path(__file__).parent / "metal_stdlib"


@dataclass(frozen=True)
class Built:
    """A compiled kernel library, and what is known about its kernels."""

    path: str
    kernels: list[dict]
    cached: bool


@dataclass(frozen=True)
class Target:
    """The target that a library is built for."""

    isa: str
    mode: str  # "auto", "simt" or "cuda", the translator's

    @property
    def suffix(self) -> str:
        """Of the library's file."""
        return ".ptx" if self.mode == "cuda" else ".so"


@dataclass(frozen=True)
class ShaderSource:
    """The source of a library."""

    text: str
    name: str
    include_dirs: tuple[str, ...]


sources: dict[str, ShaderSource] = {}  # of the libraries that are loaded, by their paths


def torch_include() -> str:
    """Where torch keeps its headers, c10/metal/*.h among them."""
    import torch

    return os.path.join(os.path.dirname(torch.__file__), "include")


def _stamp(path: str) -> str:
    facts = os.stat(path)
    return f"{path}:{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}"


def compiler_stamp() -> str:
    """Names the compiler that would be used and its version, without running it."""
    chosen = os.environ.get("MPSX_KERNEL_CXX")
    if chosen:
        words = shlex.split(chosen)
        return "\n".join(_stamp(found) if (found := shutil.which(word)) else word for word in words)
    zig = _zig()
    if zig:
        return _stamp(zig)
    for name in ("clang++", "g++", "c++"):
        found = shutil.which(name)
        if found:
            return _stamp(found)
    return ""


def compiler_of(store: Cache) -> Compiler:
    """The compiler, which is asked for its version once and not by every process."""
    from .msl.compiler import Compiler, find_compiler
    from .msl.source import MslError

    name = f"compiler-{digest(compiler_stamp())[:32]}.json"
    known = store.read(name)
    if known is None:
        try:
            found = find_compiler()
        except MslError as error:
            raise RuntimeError(f"{error} (`pip install 'mpsx[shader]'` installs ziglang)") from None
        known = {"command": list(found.command), "description": found.description}
        store.write(name, known)
    return Compiler(tuple(known["command"]), known["description"])


@functools.cache
def _zig() -> str | None:
    from importlib.util import find_spec

    spec = find_spec("ziglang")
    return os.path.join(spec.submodule_search_locations[0], "zig") if spec else None


@functools.cache
def translator_hash(folder: str) -> str:
    """The contents of the translator and its headers. Read once for every state of the files, then remembered."""
    store = Cache(Path(folder), 0)
    folders = [TRANSLATOR, TRANSLATOR / "check", LIBRARY]
    files = [entry.path for where in folders for entry in os.scandir(where) if entry.name.endswith((".py", ".h"))]
    files.sort()
    state = digest(*map(_stamp, files))
    name = f"translator-{state[:32]}.json"
    known = store.read(name)
    if known is None:
        known = {"hash": digest(*(part for path in files for part in (Path(path).name, Path(path).read_bytes())))}
        store.write(name, known)
    return known["hash"]


def build(source: str, name: str, target: Target, include_dirs: Sequence[str] = ()) -> Built:
    """The kernel library of a Metal source. `name` stands for its file in messages.

    Raises SyntaxError with the compiler's messages, RuntimeError where there is no compiler.
    """
    store = shader_cache.cache()
    includes = [*map(os.path.abspath, include_dirs), torch_include()]
    key = digest(source, name, target.isa, target.mode, "\n".join(includes), compiler_stamp(),
                 translator_hash(str(store.folder)))  # fmt: skip
    found = lookup(store, key, target.suffix)
    if found:
        return found
    try:
        return _Builder(store, target, includes).build(source, name, key)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            raise
    return _Builder(shader_cache.private(), target, includes).build(source, name, key)


def preprocessed(store: Cache, shader: ShaderSource) -> Source:
    """The tokens of a source, after the preprocessor."""
    from .msl.source import Source

    includes = [*map(os.path.abspath, shader.include_dirs), torch_include()]
    return Source(_Builder(store, Target("baseline", "simt"), includes).preprocess(shader.text, shader.name)[0])


def undefined(message: str) -> str:
    """The function that the dynamic linker says is missing, out of its mangled name; or nothing."""
    found = re.search(r"undefined symbol: (\w+)", message)
    if not found:
        return ""
    rest, names = found[1].removeprefix("_Z").removeprefix("N"), []
    while size := re.match(r"[LK]?(\d+)", rest):
        end = size.end() + int(size[1])
        names.append(rest[size.end() : end])
        rest = rest[end:]
    return "::".join(names) or found[1]


def lookup(store: Cache, key: str, suffix: str = ".so") -> Built | None:
    """The library of that key, if it is there, whole, and made of the included files as they are now."""
    record = store.read(f"{key}.json")
    if record is None:
        return None
    library = store.path(f"{record['library']}{suffix}")
    try:
        if hashlib.sha256(library.read_bytes()).hexdigest() != record["library"]:
            return None
        for path, wanted in record["includes"]:
            if hashlib.sha256(Path(path).read_bytes()).hexdigest() != wanted:
                return None
    except OSError:
        return None
    store.touch(library)
    store.touch(store.path(f"{key}.json"))
    return Built(str(library), record["kernels"], True)


class _Builder:
    """One build."""

    def __init__(self, store: Cache, target: Target, includes: list[str]) -> None:
        self.store, self.target, self.includes = store, target, includes
        try:
            self.compiler = compiler_of(store)
        except RuntimeError as error:
            raise RuntimeError(f"mpsx.compile_shader: {error}") from None
        self.clang = self.compiler.clang
        self.started: list[subprocess.Popen] = []

    def build(self, source: str, name: str, key: str) -> Built:
        from .msl import check
        from .msl.check.messages import explain
        from .msl.library import translate_library
        from .msl.source import MslError, Source

        texts = {name: source}
        folder = Path(self.store.temporary())
        on_gpu = self.target.mode == "cuda"
        header = calls = spaces = None
        try:
            header, calls = (None, None) if on_gpu else self.start_parts(folder)
            text, files = self.preprocess(source, name)
            try:
                src = Source(text)
                unit = check.unit_of(src)
            except MslError as error:
                self.refuse(check.from_text(str(error)), texts)
                raise SyntaxError(str(error)) from None
            spaces = check.AddressSpaceCheck(unit, self.compiler.command, texts)  # beside what follows
            found = check.check_unit(unit, texts)
            if found:
                self.refuse(check.merge(found, spaces.wait()), texts)
            try:
                translation = translate_library(src, self.target.mode, self.compiler.description, self.target.isa)
            except MslError as error:
                self.refuse(check.merge(check.from_text(str(error)), spaces.wait()), texts)
                raise SyntaxError(str(error)) from None
            parts = header and self.finish(header), calls and self.finish(calls)
            try:
                library = (self.compile_ptx(translation.text, folder, name) if on_gpu
                           else self.compile(translation.text, folder, *parts))  # fmt: skip
            except SyntaxError as error:
                self.refuse(check.merge(spaces.wait(), explain(str(error), translation.text, texts)), texts)
                raise
            self.refuse(spaces.wait(), texts)
            record = {
                "library": hashlib.sha256(library.read_bytes()).hexdigest(),
                "includes": [(path, hashlib.sha256(Path(path).read_bytes()).hexdigest()) for path in files],
                "kernels": translation.kernels,
            }
            path = self.store.publish(library, f"{record['library']}{self.target.suffix}")
            self.store.write(f"{key}.json", record)
        except (KeyboardInterrupt, SystemExit):
            for process in [*self.started, *([spaces.process] if spaces and spaces.process else [])]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            for process in self.started:
                process.wait()
            shutil.rmtree(folder, ignore_errors=True)
        self.store.trim()
        return Built(str(path), record["kernels"], False)

    @staticmethod
    def refuse(found: Sequence, texts: dict[str, str]) -> None:
        """Raises SyntaxError if there is something to complain about."""
        from .msl import check

        if found:
            raise SyntaxError(check.render(sorted(set(found)), check.Places("", texts)))

    def flags(self) -> list[str]:
        """Of the compiler proper."""
        simt = self.target.mode == "simt"
        flags = self.compiler.clang_flags("baseline" if simt else self.target.isa, self.target.mode, general=True)
        return [*flags, "-DMPSX_SIMT=1", "-DMPSX_GENERAL=1"]

    def run(self, command: list[str], text: str | None = None) -> str:
        """Standard output; SyntaxError with what the compiler said where it fails."""
        process = self.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out, said = process.communicate(text or "")
        if process.returncode:
            raise SyntaxError(said.strip() or f"{shlex.join(command)} failed with {process.returncode}")
        return out

    def start(self, command: list[str], **pipes: int) -> subprocess.Popen:
        """A compiler in a process group of its own, to be ended with all that it starts."""
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, **pipes)
        self.started.append(process)
        return process

    def preprocess(self, source: str, name: str) -> tuple[str, list[str]]:
        """The text after the preprocessor, and the files that were included."""
        from .msl.preprocess import APPLE_HEADERS, DEFINES, EMPTY_HEADERS, included

        apple = self.apple_headers([*APPLE_HEADERS, *EMPTY_HEADERS])
        command = [*self.clang, "-E", "-x", "c++", "-std=c++17", "-nostdinc", "-undef", f"-I{apple}"]
        command += [f"-I{folder}" for folder in self.includes] + [f"-D{define}" for define in DEFINES] + ["-"]
        text = self.run(command, f'#line 1 "{name}"\n{source}\n')
        return text, [file for file in included(text) if not file.startswith(str(apple))]

    def apple_headers(self, names: Sequence[str]) -> Path:
        """A folder of empty files in place of Apple's headers, whose contents are in mpsx/metal_stdlib."""
        folder = self.store.path(f"apple-{digest(*names)[:16]}")
        if not folder.is_dir():
            made = self.store.temporary()
            for name in names:
                Path(made, name).parent.mkdir(exist_ok=True)
                Path(made, name).touch()
            with contextlib.suppress(OSError):  # another process was quicker
                os.rename(made, folder)
        return folder

    def start_parts(self, folder: Path) -> tuple[_Part | None, _Part]:
        """The part that all shaders share, compiled unless it is in the cache: the Metal standard library as a
        precompiled header (clang alone gains by it), and the functions through which kernels reach the SIMT engine."""
        header = ["-Xclang", "-fno-pch-timestamp", "-x", "c++-header", str(LIBRARY / "msl.h")]
        calls = ["-x", "c++", "-c", str(LIBRARY / "simt_calls.h")]
        is_clang = "clang" in self.compiler.description
        started = self.start_part(folder, "msl.pch", header) if is_clang else None
        return started, self.start_part(folder, "calls.o", calls)

    def start_part(self, folder: Path, name: str, arguments: list[str]) -> _Part:
        """One of them."""
        command = [*self.clang, *self.flags(), *arguments, "-o"]
        stamp = digest(compiler_stamp(), translator_hash(str(self.store.folder)), *command)
        part = _Part(f"{name}-{stamp[:32]}.json", folder / name)
        record = self.store.read(part.record)
        if record is not None:
            path = self.store.path(record["file"])
            with contextlib.suppress(OSError):
                if hashlib.sha256(path.read_bytes()).hexdigest() == path.stem:
                    self.store.touch(path)
                    part.path = path
                    return part
        part.process = self.start([*command, str(part.written)], stdout=subprocess.DEVNULL)
        return part

    def finish(self, part: _Part) -> Path:
        """Waits for a part and stores it."""
        if part.path is None:
            said = part.process.communicate()[1]
            if part.process.returncode:
                raise RuntimeError(f"mpsx.compile_shader: cannot compile the Metal library: {said.strip()}")
            name = hashlib.sha256(part.written.read_bytes()).hexdigest() + part.written.suffix
            part.path = self.store.publish(part.written, name)
            self.store.write(part.record, {"file": name})
        return part.path

    def compile_ptx(self, text: str, folder: Path, name: str) -> Path:
        """A library of PTX out of translated text."""
        from .msl.check.messages import CLANG_FLAGS
        from .msl.ptx import pack_files

        code, library = folder / "shader.cpp", folder / "shader.ptx"
        code.write_text(text)
        # Through zig's own driver, which knows how to ask for an older PTX than clang's newest.
        flags = [*self.compiler.flags(mode="cuda", general=True), *CLANG_FLAGS]
        self.run([*self.compiler.command, *flags, "-S", str(code), "-o", f"{code}.ptx"])
        missing = re.search(r"\.extern \.func\s+(?:\([^)]*\)\s*)?(\w+)", Path(f"{code}.ptx").read_text())
        if missing:
            function = undefined(f"undefined symbol: {missing[1]}")
            raise SyntaxError(f"{name}: error: function '{function}' is called, but not defined")
        pack_files(library, [code], [f"{code}.ptx"], self.compiler.description)
        return library

    def compile(self, text: str, folder: Path, header: Path | None, calls: Path) -> Path:
        """A shared library out of translated text."""
        from .msl.check.messages import CLANG_FLAGS, FLAGS

        readable = CLANG_FLAGS if "clang" in self.compiler.description else FLAGS
        code, written, library = folder / "shader.cpp", folder / "shader.o", folder / "shader.so"
        code.write_text(text)
        command = [*self.clang, *self.flags(), *readable, "-c", str(code), "-o", str(written)]
        self.run([*command, "-include-pch", str(header)] if header else command)
        libraries = [] if self.compiler.is_zig else ["-lgcc"]
        self.run([*self.compiler.link(), str(written), str(calls), "-o", str(library), *libraries])
        return library


@dataclass
class _Part:
    record: str
    written: Path
    path: Path | None = None
    process: subprocess.Popen | None = None
