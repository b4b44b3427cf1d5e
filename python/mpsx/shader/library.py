"""`mpsx.compile_shader`: kernels from Metal source text, with the interface of `torch.mps.compile_shader`."""

from __future__ import annotations

import bisect
import functools
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from .. import _runtime
from .._shader import Kernel, Shader
from . import build, toolchain
from .constants import initializers, is_missing
from .lazy_kernels import LazyKernels

if TYPE_CHECKING:
    from ..air.library import MetallibShader

SOURCE_NAME = "program_source"  # Metal's file name for source text
MANY_NAMES = 50  # longest list of kernels in messages; metallibs may have thousands


class MissingKernel(AttributeError, RuntimeError):
    """Raised for an unknown kernel. It is a RuntimeError, as in torch.mps, and an AttributeError, for hasattr()."""


class ShaderLibrary:
    """The kernels of one Metal source, as attributes. `dir()` lists them."""

    def __init__(self, shader: Shader | LazyShader, kernels: Sequence[dict] = ()) -> None:
        self.__dict__["__shader"] = shader
        self.__dict__["__kernels"] = {kernel["name"]: kernel for kernel in kernels}

    def __getattr__(self, name: str) -> Kernel:
        shader = self.__dict__["__shader"]
        kernel = None if name.startswith("__") else shader.kernel(name, self.__dict__["__kernels"].get(name))
        if kernel is None:
            found = listed(shader.names(), name) or "none"
            raise MissingKernel(f"Failed to create function state object for: {name} (the shader library has no kernel "
                                f"named {name!r}; it has {found})")
        self.__dict__[name] = kernel  # later lookups bypass __getattr__
        return kernel

    def __dir__(self) -> list[str]:
        return self.__dict__["__shader"].names()

    def __repr__(self) -> str:
        return f"<mpsx shader library: {listed(dir(self), '') or 'no kernels'}>"


def listed(names: list[str], name: str) -> str:
    """List the names in a message. If there are too many, list those that come next to `name` in the alphabet."""
    if len(names) <= MANY_NAMES:
        return ", ".join(names)
    names = sorted(names)
    at = bisect.bisect(names, name)
    return f"{len(names)} kernels, such as {', '.join(names[max(at - 5, 0) : at + 5])}"


def compile_shader(source: str) -> ShaderLibrary:
    """Compile Metal source text, and return its kernels as attributes of a library:

        lib = mpsx.compile_shader('''
            kernel void axpy(device float* y, constant float* x, constant float& a,
                             uint i [[thread_position_in_grid]]) {
              y[i] += a * x[i];
            }''')
        lib.axpy(y, x, 2.0)

    Pass mpsx tensors, numbers, and lists of numbers in the order of the kernel's buffers. A call runs one thread per
    element of the first tensor, or `threads` threads. `help(type(lib.axpy))` describes all arguments.
    `lib.axpy.with_constants(has_bias=True)` returns the kernel specialized for function constants. A kernel receives
    only the memory of the tensors, not their strides, dtypes, and sizes. Calls are not differentiable. To define an
    operator with a gradient, use `torch.library.custom_op`.

    The source may include PyTorch's headers, such as `<c10/metal/utils.h>`. Without a Mac, mpsx translates it to C++
    and compiles it with clang (`pip install ziglang`), clang++, g++, or `$MPSX_KERNEL_CXX`. If the source has many
    kernels or function constants, each kernel is compiled on first use, and for each set of values of its function
    constants. Otherwise all are compiled at once. Results are cached in
    `$MPSX_CACHE_DIR` (default: `~/.cache/mpsx`), up to `$MPSX_CACHE_SIZE` bytes (default: 1 GiB).

    On a Mac, Metal compiles the text with the options of `torch.mps.compile_shader`: the newest language version, and
    no fast-math unless `PYTORCH_MPS_FAST_MATH` is set. Unlike the other drivers, it may contract a * b + c to a fused
    multiply-add. To get the same results everywhere, put `#pragma METAL fp contract(off)` at the top of the text.

    `MPSX_DRIVER=simt` checks each launch for out-of-bounds accesses, missing barriers, and races in threadgroup memory
    and device memory.

    Warns once per kernel if a tensor's dtype does not match its parameter. Issues a SyntaxWarning about attributes that
    Metal ignores. Raises SyntaxError with file, line, and column. Raises RuntimeError if there is no compiler, or if it
    runs longer than `$MPSX_SHADER_TIMEOUT` seconds (default: 120). On the host and simt drivers, a call raises
    RuntimeError if the kernel crashes.
    """
    if not isinstance(source, str):
        raise TypeError(f"mpsx.compile_shader: expected Metal source as a str, got {type(source).__name__}")
    return load(source, SOURCE_NAME)


def load(source: str, name: str, include_dirs: Sequence[str] = (), strict: bool = True) -> ShaderLibrary:
    """Like `compile_shader`, but takes a file name for messages and include directories. Generated sources do not need
    the strict check."""
    return load_with_kernels(source, name, include_dirs, strict)[0]


def load_with_kernels(source: str, name: str, include_dirs: Sequence[str] = (),
                      strict: bool = True) -> tuple[ShaderLibrary, list[dict]]:  # fmt: skip
    """Like `load`, but also return a description of each kernel: its name, its location, and its buffers with index,
    address space, and text."""
    target = _target()
    if target is None:  # Metal compiles source text itself
        shader = Shader(name, text=embed_headers(source, include_dirs))
        names = shader.names()
        return ShaderLibrary(shader), [{"name": n, "location": name, "buffers": [], "constants": []} for n in names]
    built = build.build(source, name, target, include_dirs, strict)
    for warning in built.warnings:
        warnings.warn(warning, SyntaxWarning, stacklevel=4)
    text = build.ShaderSource(source, name, tuple(include_dirs))
    shader = LazyShader(text, built.lazy) if built.lazy else _open(Shader, text, built.path)
    return ShaderLibrary(shader, built.kernels), built.kernels


def build_only(source: str, name: str, include_dirs: Sequence[str] = ()) -> None:
    """Add the library of a generated source to the disk cache. With the metal driver, there is none."""
    target = _target()
    if target is not None:
        build.build(source, name, target, include_dirs, strict=False)


def _open(kind: Callable[..., Shader], source: build.ShaderSource, path: str) -> Shader:
    """Load the compiled library of a source as a Shader of this kind."""
    try:
        shader = kind(source.name, path=path)
    except RuntimeError as error:
        missing = toolchain.undefined_function(str(error))
        if missing:
            raise SyntaxError(f"{source.name}: error: function '{missing}' is called, but not defined") from None
        raise
    build.sources[path] = shader.source = source
    return shader


class KernelShader(Shader):
    """The library of one kernel, compiled for certain values of the function constants. It has no path if a required
    constant has no value yet. `owner` returns the kernel for other values."""

    def __init__(self, owner: LazyShader | MetallibShader, name: str, path: str | None = None) -> None:
        super().__init__(name, path=path)
        self.owner = owner

    def kernel(self, name: str, description: dict | None = None, constants: dict | None = None) -> Kernel | None:
        return self.owner.kernel(name, description, constants)


class LazyShader:
    """A Shader that compiles each kernel on first use, for the values of the function constants."""

    def __init__(self, source: build.ShaderSource, kernels: LazyKernels) -> None:
        self.source, self.kernels = source, kernels
        self.loaded: dict[str, KernelShader] = {}  # by path
        self.warned: set[str] = set()  # shared by the kernels for different values

    def names(self) -> list[str]:
        return sorted(self.kernels.exports)

    def kernel(self, name: str, description: dict | None, constants: dict | None = None) -> Kernel | None:
        if name not in self.kernels.exports:
            return None
        values = initializers(name, self.kernels.constants, constants or {})
        kind = functools.partial(KernelShader, self)
        if is_missing(description, constants or {}):
            return Shader.kernel(kind(self.source.name), name, description, constants)
        path = self.kernels.library(name, values)
        if path not in self.loaded:
            self.loaded[path] = _open(kind, self.source, path)
            self.loaded[path].warned = self.warned
        return Shader.kernel(self.loaded[path], name, description, constants)


def compile_all(library: ShaderLibrary) -> None:
    """Compile those kernels of a library that are not compiled yet, on all cores. Leaves out kernels that need function
    constants."""
    shader = library.__dict__["__shader"]
    if isinstance(shader, LazyShader):
        names = [name for name, kernel in library.__dict__["__kernels"].items() if not is_missing(kernel, {})]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda name: shader.kernels.library(name, {}), names))


@functools.cache
def _target() -> toolchain.Target | None:
    """Return the target of the driver in use. Return None for the metal driver, which compiles source text itself."""
    info = _runtime.driver()
    if info["name"] == "metal":
        return None
    return toolchain.Target(info["isa"], info["name"] if info["name"] in ("simt", "cuda") else "auto")


def embed_headers(source: str, include_dirs: Sequence[str] = ()) -> str:
    """Replace #includes with the text of the headers, except for Apple's headers. Line numbers stay the same."""
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
