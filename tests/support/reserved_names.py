"""Metal sources that give kernels, functions, types, constants and variables names that a generated entry point might
use for its own variables."""

from __future__ import annotations

from collections.abc import Iterator

NAMES = ["own", "whole", "arguments", "args", "launch", "group", "grid", "runs", "begin", "end", "bytes", "a0", "x0",
         "S", "X", "NX"]  # fmt: skip
INDEX = "uint i [[thread_position_in_grid]], uint lane [[thread_index_in_threadgroup]]"


def constants() -> str:
    """Return a source that uses the names for template arguments and array sizes."""
    source = "template <int N> kernel void add(device float* x, INDEX) { x[i] += N; }\n"
    for n, name in enumerate(NAMES, 4):
        source += (f"constexpr constant int {name} = {n};\n"
                   f'template [[host_name("{name}")]] kernel decltype(add<{name}>) add<{name}>;\n'
                   f"kernel void shared_{name}(device float* x, INDEX) {{ threadgroup float local[{name}];\n"
                   f"  local[lane] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup);\n"
                   f"  x[i] = local[lane ^ 1] + {name}; }}\n")  # fmt: skip
    return source


def types() -> str:
    """Return a source that uses the names for classes passed as template arguments."""
    source = "template <typename T> kernel void add(device float* x, INDEX) { x[i] += T::number; }\n"
    for n, name in enumerate(NAMES, 4):
        source += (f"struct {name} {{ enum {{ number = {n} }}; }};\n"
                   f'template [[host_name("{name}")]] kernel decltype(add<{name}>) add<{name}>;\n')  # fmt: skip
    return source


def functions() -> str:
    """Return a source that uses the names for functions, parameters and variables."""
    source = ""
    for n, name in enumerate(NAMES, 4):
        source += (f"float {name}(float x) {{ return x + {n}; }}\n"
                   f"kernel void calls_{name}(device float* x, INDEX) {{ x[i] = {name}(x[i]); }}\n"
                   f"kernel void with_{name}(device float* {name}, INDEX) {{ {name}[i] += {n}; }}\n"
                   f"kernel void k_{name}(device float* x, INDEX) {{ const int {name} = {n}; x[i] += {name}; }}\n")
    return source


def kernels() -> str:
    """Return a source that uses the names for kernels."""
    lines = [f"kernel void {name}(device float* x, INDEX) {{ x[i] += {n}; }}\n" for n, name in enumerate(NAMES, 4)]
    return "".join(lines)


HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
SOURCES = {made.__name__: HEAD + made().replace("INDEX", INDEX) for made in (constants, types, functions, kernels)}


def expected(source: str) -> Iterator[tuple[str, list[int]]]:
    """Yield each kernel in a source with its output for the input 0, 1, 2, 3. A kernel adds its number, and some
    kernels swap pairs first."""
    for n, name in enumerate(NAMES, 4):
        for prefix in ("", "shared_", "calls_", "with_", "k_"):
            if f"void {prefix}{name}(" in source or (not prefix and f'"{name}"' in source):
                yield prefix + name, [k + n for k in ([1, 0, 3, 2] if prefix == "shared_" else [0, 1, 2, 3])]
