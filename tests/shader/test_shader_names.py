"""mpsx.compile_shader: a kernel may use the names that a generated entry point might use for its own variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from processes import run_in_subprocess

import mpsx
from mpsx.msl.compiler import find_compiler, writes_ptx
from mpsx.msl.translate import translate

NAMES = ["own", "whole", "arguments", "args", "launch", "group", "grid", "runs", "begin", "end", "bytes", "a0", "x0",
         "S", "X", "NX"]  # fmt: skip
INDEX = "uint i [[thread_position_in_grid]], uint lane [[thread_index_in_threadgroup]]"


def constants() -> str:
    """Template arguments and array sizes."""
    source = "template <int N> kernel void add(device float* x, INDEX) { x[i] += N; }\n"
    for n, name in enumerate(NAMES, 4):
        source += (f"constexpr constant int {name} = {n};\n"
                   f'template [[host_name("{name}")]] kernel decltype(add<{name}>) add<{name}>;\n'
                   f"kernel void shared_{name}(device float* x, INDEX) {{ threadgroup float local[{name}];\n"
                   f"  local[lane] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup);\n"
                   f"  x[i] = local[lane ^ 1] + {name}; }}\n")  # fmt: skip
    return source


def types() -> str:
    """Template arguments that are classes."""
    source = "template <typename T> kernel void add(device float* x, INDEX) { x[i] += T::number; }\n"
    for n, name in enumerate(NAMES, 4):
        source += (f"struct {name} {{ enum {{ number = {n} }}; }};\n"
                   f'template [[host_name("{name}")]] kernel decltype(add<{name}>) add<{name}>;\n')  # fmt: skip
    return source


def functions() -> str:
    """Kernels, functions, parameters and variables."""
    source = ""
    for n, name in enumerate(NAMES, 4):
        source += (f"float {name}(float x) {{ return x + {n}; }}\n"
                   f"kernel void {name}(device float* x, INDEX) {{ x[i] = {name}(x[i]); }}\n"
                   f"kernel void with_{name}(device float* {name}, INDEX) {{ {name}[i] += {n}; }}\n"
                   f"kernel void k_{name}(device float* x, INDEX) {{ const int {name} = {n}; x[i] += {name}; }}\n")
    return source


SOURCES = {made.__name__: made().replace("INDEX", INDEX) for made in (constants, types, functions)}


def check(source: str) -> None:
    """Run all kernels of a source on 0, 1, 2, 3: each adds the number of its name, and some swap neighbors."""
    library = mpsx.compile_shader("#include <metal_stdlib>\nusing namespace metal;\n" + source)
    for n, name in enumerate(NAMES, 4):
        for prefix in ("", "shared_", "with_", "k_"):
            if f"void {prefix}{name}(" not in source and (prefix or f'"{name}"' not in source):
                continue
            x = torch.arange(4.0).to("mpsx")
            getattr(library, prefix + name)(x, threads=4, group_size=4)
            order = [1, 0, 3, 2] if prefix == "shared_" else [0, 1, 2, 3]
            assert x.tolist() == [k + n for k in order], prefix + name


@pytest.mark.parametrize("name", SOURCES)
def test_names_of_entry_points(name: str) -> None:
    check(SOURCES[name])


@pytest.mark.skipif(mpsx.driver()["name"] != "host", reason="the checked driver runs on CPUs")
def test_names_on_the_checked_driver() -> None:
    code = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nimport test_shader_names as t\n"
    done = run_in_subprocess(code + "for source in t.SOURCES.values(): t.check(source)\nprint('done')",
                             MPSX_DRIVER="simt", PYTHONPATH=os.pathsep.join(sys.path))
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("name", SOURCES)
def test_names_in_ptx(name: str, tmp_path: Path) -> None:
    """Compile for NVIDIA GPUs, which needs no GPU."""
    compiler = find_compiler()
    if not writes_ptx(compiler):
        pytest.skip("the kernel compiler has no backend for NVIDIA GPUs (ziglang's has)")
    source = tmp_path / "names.metal"
    source.write_text("#include <metal_stdlib>\nusing namespace metal;\n" + SOURCES[name])
    paths, _ = translate(str(source), str(tmp_path / "names.cpp"), (), (), compiler.preprocessor(), 1, mode="cuda",
                         general=True)  # fmt: skip
    command = [*compiler.command, *compiler.flags("cuda"), "-S", paths[0], "-o", str(tmp_path / "names.ptx")]
    subprocess.run(command, check=True)
