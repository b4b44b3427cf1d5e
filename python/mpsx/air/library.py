"""`mpsx.load_metallib`: run kernels compiled by Apple's compiler, with the interface of `mpsx.compile_shader`."""

from __future__ import annotations

import os
from pathlib import Path

from .. import _runtime
from .._shader import Kernel, Shader
from ..shader import library as shader_library
from ..shader.cache import current_cache
from ..shader.library import KernelShader, ShaderLibrary
from .build import KernelBuilder
from .ir import AirError
from .metallib import Function, MetallibError, read


def load_metallib(metallib: str | os.PathLike | bytes) -> ShaderLibrary:
    """Load a metallib, the output of Apple's Metal compiler. Its kernels become attributes of the returned library:

        lib = mpsx.load_metallib("mlx.metallib")
        lib.v_Expfloat32float32(x, y, x.numel())

    `metallib` is a path or the file's contents. The kernels have the interface of `mpsx.compile_shader`. On first use,
    a kernel is translated, compiled with clang (`pip install 'mpsx[shader]'`), and cached. The first use is faster if
    the package llvmlite is installed.

    The host and simt drivers run metallibs. simt checks each launch, as it does for kernels from source text. Looking
    up a kernel that uses textures, ray tracing, function tables, or an unknown intrinsic raises RuntimeError with the
    reason, but the file's other kernels remain usable. Raises ValueError if the file is damaged.
    """
    if isinstance(metallib, (bytes, bytearray, memoryview)):
        return ShaderLibrary(MetallibShader(bytes(metallib), "metallib"))
    if not isinstance(metallib, (str, os.PathLike)):
        raise TypeError(f"mpsx.load_metallib: expected a path or bytes, got {type(metallib).__name__}")
    return ShaderLibrary(MetallibShader(Path(metallib).read_bytes(), os.fspath(metallib)))


class MetallibShader:
    """A Shader that compiles each kernel of a metallib on first use."""

    def __init__(self, data: bytes, name: str) -> None:
        driver = _runtime.driver()["name"]
        if driver not in ("host", "simt"):
            raise RuntimeError(f"mpsx.load_metallib: expected the driver host or simt, got {driver}")
        self.name = name
        self.functions: dict[str, Function] = {f.name: f for f in read(data, name)}
        self.builder = KernelBuilder(current_cache(), shader_library._target(), name)
        self.loaded: dict[tuple[str, frozenset], tuple[KernelShader, dict]] = {}

    def names(self) -> list[str]:
        """Return the sorted names of all functions."""
        return sorted(self.functions)

    def describe(self, name: str) -> dict:
        """Describe a kernel without compiling it. Raise AirError with the reason if it cannot run here."""
        return self.builder.description(self.functions[name])

    def kernel(self, name: str, description: dict | None = None, constants: dict | None = None) -> Kernel | None:
        """Return a kernel specialized for function constants, or None if no kernel has this name."""
        if name not in self.functions:
            return None
        constants = constants or {}
        key = name, frozenset(constants.items())
        if key not in self.loaded:
            try:
                path, description = self.builder.library(self.functions[name], constants)
            except AirError as error:
                kernel = f"{self.name}: kernel '{name}'"
                raise RuntimeError(f"mpsx.load_metallib: {kernel} is not supported: {error}") from None
            self.loaded[key] = KernelShader(self, self.name, path), description
        shader, description = self.loaded[key]
        return Shader.kernel(shader, name, description, constants)


__all__ = ["AirError", "MetallibError", "load_metallib"]
