"""Metal kernels from source text: `mpsx.compile_shader`, with the interface of `torch.mps.compile_shader`."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from .. import _runtime
from .._shader import Kernel, Shader
from . import build, toolchain
from .lazy_kernels import LazyKernels

SOURCE_NAME = "program_source"  # what Metal calls the file of a library made from source


class MissingKernel(AttributeError, RuntimeError):
    """A RuntimeError, as torch.mps raises it, and an AttributeError for hasattr."""


class ShaderLibrary:
    """The kernels of one Metal source, as attributes; `dir()` lists them."""

    def __init__(self, shader: Shader | LazyShader, facts: Sequence[dict] = ()) -> None:
        self.__dict__["__shader"] = shader
        self.__dict__["__facts"] = {kernel["name"]: kernel for kernel in facts}

    def __getattr__(self, name: str) -> Kernel:
        shader = self.__dict__["__shader"]
        kernel = None if name.startswith("__") else shader.kernel(name, self.__dict__["__facts"].get(name))
        if kernel is None:
            found = ", ".join(shader.names()) or "none"
            raise MissingKernel(f"Failed to create function state object for: {name} (the shader library has no kernel "
                                f"named {name!r}; it has {found})")
        self.__dict__[name] = kernel  # found without this method from now on
        return kernel

    def __dir__(self) -> list[str]:
        return self.__dict__["__shader"].names()

    def __repr__(self) -> str:
        return f"<mpsx shader library: {', '.join(dir(self)) or 'no kernels'}>"


def compile_shader(source: str) -> ShaderLibrary:
    """Compiles Metal source text, and returns its kernels as attributes of a library:

        lib = mpsx.compile_shader('''
            kernel void axpy(device float* y, constant float* x, constant float& a,
                             uint i [[thread_position_in_grid]]) {
              y[i] += a * x[i];
            }''')
        lib.axpy(y, x, 2.0)

    A call takes tensors on mpsx, numbers and lists of numbers in the order of the kernel's buffers, and runs as many
    threads as the first tensor has elements unless `threads` says otherwise; `help(type(lib.axpy))` tells the rest.
    `lib.axpy.with_constants(has_bias=True)` is the kernel with values for its function constants.
    Tensors are handed over as their memory: strides, types and sizes are the kernel's business, and autograd knows
    nothing of it. `torch.library.custom_op` makes an operator of it, with a gradient if you have one.

    `#include <c10/metal/utils.h>` and the other headers of PyTorch are found. Without a Mac the source is translated to
    C++ and compiled by clang (`pip install 'mpsx[shader]'`), clang++, g++ or `$MPSX_KERNEL_CXX`: all kernels at once,
    or of a source with many each when it is first used. Results are kept in `$MPSX_CACHE_DIR` (default:
    `~/.cache/mpsx`), up to `$MPSX_CACHE_SIZE` bytes (default: 1 GiB).

    On a Mac, Metal compiles the text as `torch.mps.compile_shader` has it compiled: in the newest language that macOS
    has, without fast-math unless `PYTORCH_MPS_FAST_MATH` is set. It may fuse a product with the sum it is added to, and
    so round once; on CPUs nothing is fused. `#pragma METAL fp contract(off)` at the head of the text makes them agree.

    `MPSX_DRIVER=simt` checks each launch for accesses out of bounds, missing barriers and races in threadgroup memory.
    Races in device memory (two threads that update the same element) are not found on any driver.

    Warns once for each kernel if a tensor's dtype does not fit the element type of its parameter, and with a
    SyntaxWarning about attributes that Metal does not know, which it ignores. Raises SyntaxError with file, line and
    column of what is wrong, and RuntimeError where there is no compiler, or where it takes longer than
    `$MPSX_SHADER_TIMEOUT` seconds (default: 120). On host and simt a call raises RuntimeError if the kernel crashes.
    """
    if not isinstance(source, str):
        raise TypeError(f"mpsx.compile_shader: expected Metal source as a str, got {type(source).__name__}")
    return load(source, SOURCE_NAME)


def load(source: str, name: str, include_dirs: Sequence[str] = ()) -> ShaderLibrary:
    """`compile_shader` with a file's name for messages, and more folders to find includes in."""
    return load_with_kernels(source, name, include_dirs)[0]


def load_with_kernels(source: str, name: str, include_dirs: Sequence[str] = ()) -> tuple[ShaderLibrary, list[dict]]:
    """`load`, and what the source says of its kernels: name, location, and buffers with index, space and text."""
    target = _target()
    if target is None:  # Metal compiles the text itself
        shader = Shader(name, text=embed_headers(source, include_dirs))
        names = shader.names()
        return ShaderLibrary(shader), [{"name": n, "location": name, "buffers": [], "constants": []} for n in names]
    built = build.build(source, name, target, include_dirs)
    for warning in built.warnings:
        warnings.warn(warning, SyntaxWarning, stacklevel=4)
    text = build.ShaderSource(source, name, tuple(include_dirs))
    shader = LazyShader(text, built.lazy) if built.lazy else _open(text, built.path)
    return ShaderLibrary(shader, built.kernels), built.kernels


def _open(source: build.ShaderSource, path: str) -> Shader:
    """Loads a compiled library of a source."""
    try:
        shader = Shader(source.name, path=path)
    except RuntimeError as error:
        missing = toolchain.undefined_function(str(error))
        if missing:
            raise SyntaxError(f"{source.name}: error: function '{missing}' is called, but not defined") from None
        raise
    build.sources[path] = shader.source = source
    return shader


class LazyShader:
    """A Shader whose kernels are compiled when they are first asked for, each by itself."""

    def __init__(self, source: build.ShaderSource, kernels: LazyKernels) -> None:
        self.source, self.kernels = source, kernels

    def names(self) -> list[str]:
        return sorted(self.kernels.exports)

    def kernel(self, name: str, facts: dict | None) -> Kernel | None:
        if name not in self.kernels.exports:
            return None
        return _open(self.source, self.kernels.library(name)).kernel(name, facts)


def compile_all(library: ShaderLibrary) -> None:
    """Compiles the kernels of a library that are not compiled yet, on all cores."""
    shader = library.__dict__["__shader"]
    if isinstance(shader, LazyShader):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(shader.kernels.library, shader.names()))


@functools.cache
def _target() -> toolchain.Target | None:
    """The target of the driver in use; None for Metal source."""
    info = _runtime.driver()
    if info["name"] == "metal":
        return None
    return toolchain.Target(info["isa"], info["name"] if info["name"] in ("simt", "cuda") else "auto")


def embed_headers(source: str, include_dirs: Sequence[str] = ()) -> str:
    """The source with the headers it includes put in their places, except for Apple's own. Its lines keep their
    numbers, which stand in what the compiler says, and in what kernels report."""
    from pathlib import Path

    from torch.utils._cpp_embed_headers import _embed_headers

    folders = [*map(Path, include_dirs), Path(toolchain.torch_include())]
    text, seen = "", set()
    for number, line in enumerate(source.split("\n"), 1):
        embedded = _embed_headers([line + "\n"], folders, seen)
        if embedded != line + "\n":
            embedded += ("" if embedded.endswith("\n") else "\n") + f"#line {number + 1}\n"
        text += embedded
    return text
