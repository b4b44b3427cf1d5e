"""Find the kernel library of a Metal source in the disk cache, or build it."""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import toolchain
from .cache import Cache, current_cache, digest, with_fallback_cache
from .toolchain import Target

if TYPE_CHECKING:
    from ..msl.source import Source
    from .lazy_kernels import LazyKernels


@dataclass(frozen=True)
class Built:
    """A compiled kernel library with descriptions of its kernels."""

    path: str  # path of the library, or "" if kernels are compiled one by one
    kernels: list[dict]
    cached: bool
    lazy: LazyKernels | None = None
    warnings: Sequence[str] = ()  # warnings about the source, with file, line and column


@dataclass(frozen=True)
class ShaderSource:
    """The Metal source of a kernel library."""

    text: str
    name: str
    include_dirs: tuple[str, ...]


# The sources of all loaded libraries. The key is the library's path.
sources: weakref.WeakValueDictionary[str, ShaderSource] = weakref.WeakValueDictionary()


def build(source: str, name: str, target: Target, include_dirs: Sequence[str] = (), strict: bool = True) -> Built:
    """Find the kernel library of a Metal source in the cache, or build it. `name` is the source's file name in
    messages. `strict` rejects code that Metal would reject.

    Raises SyntaxError with the compiler's messages, and RuntimeError if there is no compiler.
    """
    cache = current_cache()
    includes = _include_path(include_dirs)
    key = digest(source, name, str(strict), target.isa, target.mode, "\n".join(includes), toolchain.compiler_stamp(),
                 toolchain.translator_hash(str(cache.folder)))  # fmt: skip
    found = lookup(cache, key, target, name)
    if found:
        return found

    def built(cache: Cache) -> Built:
        from .compiler import Builder

        record = Builder(cache, target, includes, name, source, strict).build(source, key)
        path = str(cache.path(record["library"])) if "library" in record else ""
        return _built(record, path, False, cache, target, name, key)

    return with_fallback_cache(cache, built)


def lookup(cache: Cache, key: str, target: Target, name: str) -> Built | None:
    """Return the cached build for a key. Return None if it is missing or damaged, or if an included file has
    changed."""
    record = cache.read(f"{key}.json")
    if record is None:
        return None
    try:
        if any(hashlib.sha256(Path(path).read_bytes()).hexdigest() != wanted for path, wanted in record["includes"]):
            return None
    except OSError:
        return None
    path = cache.find(record["library"]) if "library" in record else ""
    if path is None:
        return None
    cache.touch(cache.path(f"{key}.json"))
    return _built(record, str(path), True, cache, target, name, key)


def _built(record: dict, path: str, cached: bool, cache: Cache, target: Target, name: str, key: str) -> Built:
    lazy = None
    if "exports" in record:
        from ..msl.passes.function_constants import Definition
        from .lazy_kernels import LazyKernels

        lazy = LazyKernels(cache, target, name, key, record["source"], record["exports"], record["constants"],
                           [Definition(*fields) for fields in record["definitions"]])  # fmt: skip
    return Built(path, record["kernels"], cached, lazy, record.get("warnings", ()))


def _include_path(include_dirs: Sequence[str]) -> list[str]:
    return [*map(os.path.abspath, include_dirs), toolchain.torch_include()]


def preprocessed(cache: Cache, shader: ShaderSource) -> Source:
    """Return the preprocessed Source of a shader."""
    from ..msl.program_scope import read_source
    from .compiler import Builder

    builder = Builder(cache, Target("baseline", "simt"), _include_path(shader.include_dirs), shader.name, shader.text)
    with builder.working_folder() as folder:
        return read_source(builder.preprocess(shader.text, folder)[0])
