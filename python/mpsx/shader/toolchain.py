"""The shader compiler, and hashes of everything except the source that a compiled shader depends on."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .cache import Cache, digest

if TYPE_CHECKING:
    from ..msl.compiler import Compiler

PACKAGE = Path(__file__).parent.parent
TRANSLATOR = PACKAGE / "msl"
METAL_STDLIB = PACKAGE / "metal_stdlib"


@dataclass(frozen=True)
class Target:
    """The instruction set and translator mode of a kernel library."""

    isa: str
    mode: str  # the translator's mode: "auto", "simt", or "cuda"


class NoCompilerError(RuntimeError):
    """Raised if there is no usable compiler."""


def torch_include() -> str:
    """Return the folder of torch's headers, such as c10/metal/*.h."""
    import torch

    return os.path.join(os.path.dirname(torch.__file__), "include")


def _stamp(path: str) -> str:
    stat = os.stat(path)
    return f"{path}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}"


def compiler_stamp() -> str:
    """Return text that identifies the compiler in use and its version, without running the compiler."""
    chosen = os.environ.get("MPSX_KERNEL_CXX")
    if chosen:
        command = shlex.split(chosen)
        return "\n".join(_stamp(found) if (found := shutil.which(word)) else word for word in command)
    zig = _zig()
    if zig:
        return _stamp(zig)
    for name in ("clang++", "g++", "c++"):
        found = shutil.which(name)
        if found:
            return _stamp(found)
    return ""


def find_compiler(cache: Cache) -> Compiler:
    """Find the compiler. Cache its version, to avoid running the compiler in every process."""
    from ..msl import compiler
    from ..msl.source import MslError

    name = f"compiler-{digest(compiler_stamp())[:32]}.json"
    record = cache.read(name)
    if record is None:
        try:
            found = compiler.find_compiler()
        except MslError as error:
            raise NoCompilerError(f"{error} (`pip install ziglang` installs one)") from None
        record = {"command": list(found.command), "description": found.description}
        cache.write(name, record)
    return compiler.Compiler(tuple(record["command"]), record["description"])


@functools.cache
def _zig() -> str | None:
    from importlib.util import find_spec

    spec = find_spec("ziglang")
    return os.path.join(spec.submodule_search_locations[0], "zig") if spec else None


def translator_hash(folder: str) -> str:
    """Hash the translator and its headers. The hash is cached in `folder` until a file changes."""
    packages = (TRANSLATOR / name for name in ("check", "codegen", "passes"))
    return _contents_hash(folder, TRANSLATOR, *packages, *stdlib_folders())


def headers_hash(folder: str) -> str:
    """Hash the headers with which translated code is compiled."""
    return _contents_hash(folder, *stdlib_folders())


def stdlib_folders() -> tuple[Path, ...]:
    """The folders of the Metal standard library's headers."""
    return (METAL_STDLIB, *(METAL_STDLIB / name for name in ("cuda", "tensor", "cuda/tensor")))


@functools.cache
def _contents_hash(folder: str, *sources: Path) -> str:
    cache = Cache(Path(folder), 0)
    files = [entry.path for source in sources for entry in os.scandir(source) if entry.name.endswith((".py", ".h"))]
    files.sort()
    name = f"translator-{digest(*map(_stamp, files))[:32]}.json"
    record = cache.read(name)
    if record is None:
        record = {"hash": digest(*(part for path in files for part in (Path(path).name, Path(path).read_bytes())))}
        cache.write(name, record)
    return record["hash"]


def undefined_function(message: str) -> str:
    """Return the demangled name of the function that the dynamic linker reports as undefined, or "" if there is
    none."""
    found = re.search(r"undefined symbol: (\w+)", message)
    if not found:
        return ""
    rest, names = found[1].removeprefix("_Z").removeprefix("N"), []
    while size := re.match(r"[LK]?(\d+)", rest):
        end = size.end() + int(size[1])
        names.append(rest[size.end() : end])
        rest = rest[end:]
    return "::".join(names) or found[1]
