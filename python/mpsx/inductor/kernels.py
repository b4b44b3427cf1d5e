"""Compilation of a graph's generated kernels, while Inductor generates the others and PyTorch finishes the graph.

Every KERNELS_PER_LIBRARY kernels become a library, which a thread compiles as soon as they are complete. Inductor
generates a graph's kernels and then runs the graph's module, which contains them as text. Both add them to a Kernels
object, so the module finds the libraries that Inductor started. Only the first call of a kernel waits for its library.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch
from torch._inductor.codecache import CodeCacheFuture

from ..shader.interpreter import short_turns
from ..shader.kernel_library import SOURCES
from ..shader.library import build_only, load
from . import checks, rows, tables

CORES = os.cpu_count() or 1
# A library of one small kernel takes 0.2 s. On few cores, compile fewer and larger libraries (at most
# shader.compiler.AT_ONCE kernels).
KERNELS_PER_LIBRARY = 4 if CORES > 4 else 8
SOURCE_NAME = "torch_compile.metal"
_started: WeakValueDictionary[str, Future] = WeakValueDictionary()  # by source


class Source(NamedTuple):
    """The source of a kernel, plus the headers and functions that it uses."""

    text: str
    headers: list[str]  # names of c10/metal headers
    functions: list[tuple[str, str, str]]  # table rows (see tables.source)
    vector_size: int  # number of elements per thread


class Kernels:
    """The kernels of one graph, compiled as a few libraries in parallel. `module` contains the global variables of the
    graph's module."""

    def __init__(self, module: dict[str, Any] | None = None) -> None:
        self.module = {} if module is None else module
        self.sources: dict[str, Source] = {}
        self.waiting: list[str] = []  # names of kernels that are in no library yet
        self.libraries: dict[str, Future] = {}  # by kernel name
        self.pool = ThreadPoolExecutor(CORES, "mpsx-compile")

    def add(self, name: str, *source: Any) -> Kernel:
        """Add a kernel. `source` contains the values for the fields of Source."""
        self.sources[name] = Source(*source)
        self.waiting.append(name)
        if len(self.waiting) == KERNELS_PER_LIBRARY:
            self.start()
        return Kernel(self, name)

    def get(self, name: str) -> Callable[..., None]:
        """Wait for a kernel."""
        self.finish()
        kernel = getattr(self.libraries[name].result(), name)
        kernel.vector_size = self.sources[name].vector_size
        kernel.takes_alignment = "constant uint& alignment" in self.sources[name].text
        return kernel if torch.__version__ >= "2.13" else SingleKernelLibrary(kernel)

    def finish(self) -> None:
        """Start the last library."""
        if self.waiting:
            self.start()
            self.pool.shutdown(wait=False)  # its threads end after the last library

    def start(self) -> None:
        """Start compiling the waiting kernels as one library, unless a thread of this process compiles it already."""
        names, self.waiting = self.waiting, []
        source = library_source([self.sources[name] for name in names])
        library = _started.get(source)
        if library is None:
            library = _started[source] = self.pool.submit(compiled, source, names)
        self.libraries |= dict.fromkeys(names, library)


def started() -> list[Future]:
    """Return the libraries of all graphs in use."""
    return list(_started.values())


@short_turns  # Inductor computes at the same time
def compiled(source: str, names: list[str]) -> Any:
    """Return the library of a source after loading its kernels. In the disk cache, libraries are named by a hash of
    their sources."""
    library = load(source, SOURCE_NAME, [str(SOURCES)], strict=False)
    with ThreadPoolExecutor(len(names)) as pool:  # on NVIDIA GPUs, loading a kernel assembles its PTX
        list(pool.map(lambda name: getattr(library, name), names))
    return library


@short_turns
def built(source: str, names: list[str]) -> None:
    """Add the library of a source to the disk cache."""
    build_only(source, SOURCE_NAME, [str(SOURCES)])


def library_source(sources: list[Source]) -> str:
    """Return the Metal source of a library."""
    headers = {header for source in sources if "c10::metal::" in source.text for header in source.headers}
    functions = {function for source in sources for function in source.functions}
    # Contraction is off, so products round as in the eager kernels.
    text = ["#pragma METAL fp contract(off)\n", "#include <metal_stdlib>\n",
            *(f"#include <c10/metal/{header}.h>\n" for header in sorted(headers)),
            *(['#include "lib/vec.h"\n'] if any(source.vector_size > 1 for source in sources) else []),
            *([f'#include "{checks.HEADER}"\n'] if any("IndexRange" in source.text for source in sources) else []),
            *([f'#include "{rows.HEADER}"\n'] if any("row_thread" in source.text for source in sources) else []),
            tables.source(sorted(functions)), *(source.text for source in sources)]  # fmt: skip
    return "".join(text)


class SingleKernelLibrary:
    """A library with one kernel, which is the form that Inductor expects before torch 2.13."""

    def __init__(self, kernel: Callable[..., None]) -> None:
        self.generated_kernel = kernel

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.generated_kernel(*args, **kwargs)


class Kernel(CodeCacheFuture):
    """A kernel in a graph's module. Its first call waits for the kernel, which then replaces this object."""

    def __init__(self, kernels: Kernels, name: str) -> None:
        self.kernels, self.name = kernels, name

    def result(self, timeout: float | None = None) -> Kernel:
        """Return this object. Inductor calls this method once the module has added all kernels."""
        self.kernels.finish()
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        kernel = self.kernels.module[self.name] = self.kernels.get(self.name)
        kernel(*args, **kwargs)

    generated_kernel = __call__  # before torch 2.13
