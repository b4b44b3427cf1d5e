"""From Metal source to a kernel library: found in the disk cache, or built (shader_compiler.py)."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import shader_cache
from .shader_cache import Cache, digest

if TYPE_CHECKING:
    from .msl.compiler import Compiler
    from .msl.source import Source
    from .shader_parts import Parts

TRANSLATOR = Path(__file__).parent / "msl"
LIBRARY = Path(__file__).parent / "metal_stdlib"


@dataclass(frozen=True)
class Built:
    """A compiled kernel library, and what is known about its kernels."""

    path: str  # of the library; "" where kernels are compiled one by one
    kernels: list[dict]
    cached: bool
    parts: Parts | None = None  # which compiles them
    warnings: Sequence[str] = ()  # about the source, with file, line and column


@dataclass(frozen=True)
class Target:
    """The target that a library is built for."""

    isa: str
    mode: str  # "auto", "simt" or "cuda", the translator's


@dataclass(frozen=True)
class ShaderSource:
    """The source of a library."""

    text: str
    name: str
    include_dirs: tuple[str, ...]


# Of the libraries that are loaded, by their paths.
sources: weakref.WeakValueDictionary[str, ShaderSource] = weakref.WeakValueDictionary()


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


class NoCompilerError(RuntimeError):
    """There is none, or it does not work."""


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
            raise NoCompilerError(f"{error} (`pip install 'mpsx[shader]'` installs ziglang)") from None
        known = {"command": list(found.command), "description": found.description}
        store.write(name, known)
    return Compiler(tuple(known["command"]), known["description"])


@functools.cache
def _zig() -> str | None:
    from importlib.util import find_spec

    spec = find_spec("ziglang")
    return os.path.join(spec.submodule_search_locations[0], "zig") if spec else None


def translator_hash(folder: str) -> str:
    """The contents of the translator and its headers. Read once for every state of the files, then remembered."""
    return _contents(folder, TRANSLATOR, TRANSLATOR / "check", LIBRARY, LIBRARY / "cuda")


def headers_hash(folder: str) -> str:
    """Of the headers alone: what translated text is compiled with."""
    return _contents(folder, LIBRARY, LIBRARY / "cuda")


@functools.cache
def _contents(folder: str, *folders: Path) -> str:
    store = Cache(Path(folder), 0)
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
    from .shader_compiler import Builder

    store = shader_cache.cache()
    includes = [*map(os.path.abspath, include_dirs), torch_include()]
    key = digest(source, name, target.isa, target.mode, "\n".join(includes), compiler_stamp(),
                 translator_hash(str(store.folder)))  # fmt: skip
    found = lookup(store, key, target, name)
    if found:
        return found

    def built(store: Cache) -> Built:
        return Builder(store, target, includes, name, source).build(source, key)

    return shader_cache.with_room(store, built)


def preprocessed(store: Cache, shader: ShaderSource) -> Source:
    """The tokens of a source, after the preprocessor."""
    from .msl.source import Source
    from .shader_compiler import Builder

    includes = [*map(os.path.abspath, shader.include_dirs), torch_include()]
    builder = Builder(store, Target("baseline", "simt"), includes, shader.name, shader.text)
    with builder.working() as folder:
        return Source(builder.preprocess(shader.text, folder)[0])


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


def lookup(store: Cache, key: str, target: Target, name: str) -> Built | None:
    """The build of that key, if it is there, whole, and made of the included files as they are now."""
    from .shader_parts import Parts

    record = store.read(f"{key}.json")
    if record is None:
        return None
    try:
        if any(hashlib.sha256(Path(path).read_bytes()).hexdigest() != wanted for path, wanted in record["includes"]):
            return None
    except OSError:
        return None
    path = store.find(record["library"]) if "library" in record else ""
    if path is None:
        return None
    store.touch(store.path(f"{key}.json"))
    parts = Parts.of(record, store, target, name, key)
    return Built(str(path), record["kernels"], True, parts, record.get("warnings", ()))
