"""mpsx.compile_shader checks a source with many kernels immediately, but compiles each kernel on first use."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import mpsx
from mpsx.msl.compiler import find_compiler, writes_ptx
from mpsx.shader import build as shader_build
from mpsx.shader import compiler, library
from mpsx.shader.cache import current_cache
from mpsx.shader.toolchain import Target

COUNT = compiler.AT_ONCE + 4
SOURCE = """
#include <metal_stdlib>
using namespace metal;
constant int extra [[function_constant(0)]];
template <int N>
kernel void add(device int* x, uint i [[thread_position_in_grid]]) {
  x[i] += N;
}
template <int N>
kernel void fill(device int* x, uint i [[thread_position_in_threadgroup]]) {
  threadgroup int shared[N];
  shared[i] = extra;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = shared[0] + BROKEN;
}
template [[host_name("fill_64")]] kernel decltype(fill<64>) fill<64>;
template [[host_name("fill_16384")]] kernel decltype(fill<16384>) fill<16384>;
""" + "".join(f'template [[host_name("add_{n}")]] kernel decltype(add<{n}>) add<{n}>;\n' for n in range(COUNT))
GOOD = SOURCE.replace("BROKEN", "0")

pytestmark = pytest.mark.skipif(mpsx._runtime.driver()["name"] == "metal", reason="Metal compiles the source itself")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Start with an empty cache, and record the command lines of the compiler."""
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "cache"))
    recorded, start = [], subprocess.Popen.__init__

    def recording(self: subprocess.Popen, command: list[str], **options: object) -> None:
        recorded.append(command)
        start(self, command, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", recording)
    return recorded


def objects(commands: list[list[str]]) -> int:
    """Count the kernels compiled so far."""
    return sum("-o" in c and c[c.index("-o") + 1].endswith(("shader.o", "shader.cpp.ptx")) for c in commands)


def test_kernels_are_compiled_on_first_use(commands: list) -> None:
    lib = mpsx.compile_shader(GOOD)
    assert dir(lib) == sorted(["fill_64", "fill_16384", *(f"add_{n}" for n in range(COUNT))])
    assert objects(commands) == 0
    x = torch.zeros(3, dtype=torch.int32, device="mpsx")
    lib.add_7(x)
    lib.add_7(x)
    lib.add_9(x)
    assert x.tolist() == [23] * 3
    assert objects(commands) == 2
    lib.fill_64.with_constants(extra=5)(x, group_size=3)
    assert x.tolist() == [5] * 3
    assert objects(commands) == 3
    with pytest.raises(RuntimeError, match="fill_64: expected values for the function constants int extra"):
        lib.fill_64(x)
    with pytest.raises(AttributeError, match="no kernel named 'add_99'"):
        lib.add_99  # noqa: B018
    # A kernel that needs too much threadgroup memory raises an error. The other kernels still work.
    with pytest.raises(RuntimeError, match="fill_16384: expected at most 32768 bytes of threadgroup memory, got 65536"):
        lib.fill_16384.with_constants(extra=5)

    before = len(commands)
    again = mpsx.compile_shader(GOOD)
    again.add_7(x)
    assert x.tolist() == [12] * 3
    assert len(commands) == before  # the kernel was cached
    library.compile_all(again)
    assert objects(commands) == COUNT + 2
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: getattr(again, f"add_{n}")(x), range(COUNT)))
    assert x.tolist() == [12 + sum(range(COUNT))] * 3


def test_large_source_is_checked_immediately(commands: list) -> None:
    with pytest.raises(SyntaxError, match=r"^program_source:14:\d+: error: use of undeclared identifier 'BROKEN'"):
        mpsx.compile_shader(SOURCE)
    with pytest.raises(SyntaxError, match=r"^program_source:14:\d+: error: .*member"):  # at instantiation
        mpsx.compile_shader(SOURCE.replace("BROKEN", "decltype(metal::vec<int, N / 32>())::nothing"))
    with pytest.raises(SyntaxError, match=r"^program_source:14:\d+: error: .*device"):  # before compilation
        mpsx.compile_shader(SOURCE.replace("BROKEN", "0; device int* pointer = shared"))
    assert objects(commands) == 0


def test_checks_for_an_nvidia_gpu_compile_no_kernel(commands: list) -> None:
    if not writes_ptx(find_compiler()):
        pytest.skip("the kernel compiler has no backend for NVIDIA GPUs (ziglang's has)")
    target = Target("sm_90", "cuda")
    built = shader_build.build(GOOD, "program_source", target, ())
    with pytest.raises(SyntaxError, match=r"^program_source:14:\d+: error: use of undeclared identifier 'BROKEN'"):
        shader_build.build(SOURCE, "program_source", target, ())
    assert objects(commands) == 0
    assert built.lazy is not None and built.lazy.library("add_7", {}).endswith(".ptx")
    assert objects(commands) == 1


def test_error_of_one_instance_is_raised_on_use(commands: list) -> None:
    lib = mpsx.compile_shader(SOURCE.replace("BROKEN", "int(sizeof(int[100 - N]))"))
    with pytest.raises(SyntaxError, match=r"^program_source:14:\d+: error: "):
        lib.fill_16384.with_constants(extra=5)
    lib.add_1(x := torch.zeros(3, dtype=torch.int32, device="mpsx"))
    assert x.tolist() == [1] * 3


def test_damaged_files_are_rebuilt(commands: list) -> None:
    mpsx.compile_shader(GOOD).add_3(x := torch.zeros(3, dtype=torch.int32, device="mpsx"))
    for path in current_cache().folder.iterdir():
        if path.suffix in (".so", ".ptx", ".pch") or (path.suffix == ".json" and path.name.count("-") == 1):
            kept = path.read_bytes()
            path.unlink()  # unlink first: a loaded library must not be overwritten in place
            path.write_bytes(kept[: len(kept) // 2])
    mpsx.compile_shader(GOOD).add_3(x)
    assert x.tolist() == [6] * 3
    assert objects(commands) == 2
