"""Compare the simt driver's kernel profiles with counts derived by hand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import run_in_subprocess

from mpsx.kernel_profile.instrument import instrument

# Kernels on float buffers. Each launch has 256 threads in threadgroups of 64.
KERNELS = """
#include <metal_stdlib>
using namespace metal;
kernel void contiguous(device float* y, device const float* x, uint i [[thread_position_in_grid]]) {
  y[i] = x[i] * 2.0f + 1.0f;
}
kernel void vectors(device float4* y, device const float4* x, uint i [[thread_position_in_grid]]) {
  const float4 v = x[i];
  y[i] = v;
}
kernel void four_each(device float* y, device const float* x, uint i [[thread_position_in_grid]]) {
  for (uint k = 0; k < 4; ++k) y[4 * i + k] = x[4 * i + k];
}
kernel void apart(device float* y, device const float* x, uint i [[thread_position_in_grid]]) { y[i] = x[i * 8]; }
kernel void shifted(device float* y, device const float* x, uint i [[thread_position_in_grid]]) { y[i] = x[i + 1]; }
kernel void one(device float* y, device const float* x, uint i [[thread_position_in_grid]]) { y[i] = x[0]; }
kernel void twice(device float* y, device const float* x, uint i [[thread_position_in_grid]],
                  uint t [[thread_index_in_threadgroup]]) {
  const float a = x[i];
  threadgroup_barrier(mem_flags::mem_none);
  y[i] = a + x[i ^ 1];
}
kernel void banks(device float* y, device const float* x, uint i [[thread_position_in_grid]],
                  uint t [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64 * 32];
  tile[t * 32] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = tile[(t ^ 1) * 32] + tile[t % 2 * 32];
}
kernel void odd_lanes(device float* y, device const float* x, uint i [[thread_position_in_grid]]) {
  if (i % 2 == 1) y[i] = x[i];
}
kernel void loops(device float* y, device const float* x, uint i [[thread_position_in_grid]],
                  uint lane [[thread_index_in_simdgroup]]) {
  float sum = 0.0f;
#pragma clang loop unroll(disable)
  for (uint k = 0; k < lane + 1; ++k) sum += x[k * 32 + lane];
  y[i] = sum;
}
kernel void matmul(device float* y, device const float* x, uint i [[thread_position_in_grid]]) {
  simdgroup_float8x8 a, c(0.0f);
  simdgroup_load(a, x, 8);
  simdgroup_multiply_accumulate(c, a, a, c);
  simdgroup_store(c, y, 8);
}
kernel void counted(device atomic_uint* y, device const float* x, uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&y[i % 8], 1u, memory_order_relaxed);
}
"""

RUN = """
import mpsx, json
library = mpsx.compile_shader({source!r})
found = {{}}
for name in {names!r}:
    x, y = torch.ones(4096, device="mpsx"), torch.zeros(4096, device="mpsx")
    profile = mpsx.profiler.profile_kernel(getattr(library, name), y, x, threads=256, group_size=64)
    found[name] = json.loads(profile.json())[0]
print(json.dumps(found))
"""


def counts(launch: dict, accesses: str) -> tuple[int, ...]:
    """Return the counts as (requests, lanes, bytes, transactions, minimum transactions)."""
    found = launch["accesses"].get(accesses, {})
    return tuple(found.get(name, 0) for name in ("requests", "lanes", "bytes", "transactions", "least"))


@pytest.fixture(scope="module")
def launches(simt_library: Path) -> dict[str, dict]:
    """Profile one launch of each kernel."""
    names = re.findall(r"kernel void (\w+)", KERNELS)
    run = run_in_subprocess(RUN.format(source=KERNELS, names=names), MPSX_DRIVER="simt")
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


# Each launch has eight SIMD groups. A SIMD group's contiguous floats occupy four sectors.
LOADS = {
    "contiguous": (8, 256, 1024, 32, 32),
    "vectors": (8, 256, 4096, 128, 128),
    "four_each": (32, 1024, 4096, 512, 128),  # not vectorized, because the address may not be a multiple of 16
    "apart": (8, 256, 1024, 256, 32),
    "shifted": (8, 256, 1024, 40, 32),
    "one": (8, 256, 1024, 8, 8),
    "twice": (16, 512, 2048, 64, 64),
    "odd_lanes": (8, 128, 512, 32, 16),
    "loops": (256, 32 * 33 // 2 * 8, 32 * 33 // 2 * 32, *(8 * sum(4 - k // 8 for k in range(32)),) * 2),
}


@pytest.mark.parametrize("name", LOADS)
def test_loads(name: str, launches: dict[str, dict]) -> None:
    assert counts(launches[name], "device load") == LOADS[name]


def test_traffic(launches: dict[str, dict]) -> None:
    assert launches["contiguous"]["traffic"] == 1 and launches["vectors"]["traffic"] == 1
    assert launches["four_each"]["traffic"] == 4
    assert launches["twice"]["read"] == {"asked": 2048, "moved": 2048, "shared": 2048, "distinct": 1024}
    # All eight SIMD groups move the same 32-byte sector. `shared` counts a single threadgroup, which has two SIMD
    # groups.
    assert launches["one"]["read"] == {"asked": 1024, "moved": 256, "shared": 64, "distinct": 4}


def test_banks(launches: dict[str, dict]) -> None:
    assert counts(launches["banks"], "threadgroup store") == (8, 256, 1024, 256, 8)
    assert counts(launches["banks"], "threadgroup load") == (16, 512, 2048, 256 + 2 * 8, 16)


def test_work(launches: dict[str, dict]) -> None:
    assert launches["contiguous"]["flops"] == 512
    assert launches["matmul"]["products"] == 8 and launches["matmul"]["flops"] == 8 * 1024
    assert launches["twice"]["calls"] == {"threadgroup_barrier": 4}
    assert launches["contiguous"]["active"] == 1 and 0.3 < launches["loops"]["active"] < 0.7


def test_atomics(launches: dict[str, dict]) -> None:
    assert counts(launches["counted"], "device atomic") == (8, 256, 1024, 8, 8)


def test_lines(launches: dict[str, dict]) -> None:
    lines = {line["line"]: line for line in launches["twice"]["lines"]}
    source = KERNELS.split("\n")
    loading = [n for n, line in lines.items() if "device load" in line["accesses"]]
    assert ["x[i]" in source[n - 1] for n in loading] == [True, False]
    assert lines[loading[1]]["accesses"]["device load"]["again"] == 32


@pytest.mark.usefixtures("simt_library")
def test_function_constants() -> None:
    source = """
constant bool is_scaled [[function_constant(0)]];
constant int count [[function_constant(1)]], twice = count * 2;
kernel void f(device float* y, uint i [[thread_position_in_grid]]) {
  if (is_scaled) for (int k = 0; k < twice; ++k) y[i] = y[i] * 2.0f;
  else y[i] += 1.0f;
}"""
    run = run_in_subprocess(f"""
import mpsx, json
kernel, y, found = mpsx.compile_shader({source!r}).f, torch.ones(64, device="mpsx"), []
for values in ({{0: True, 1: 3}}, {{0: False, 1: 3}}, {{0: True, 1: 5}}):
    launch = json.loads(mpsx.profiler.profile_kernel(kernel.with_constants(values), y).json())[0]
    found.append([launch["flops"], y[0].item()])
print(json.dumps(found))
""", MPSX_DRIVER="simt")  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    assert json.loads(run.stdout) == [[6 * 64, 64], [64, 65], [10 * 64, 65 * 1024]]


def test_command_line(tmp_path: Path) -> None:
    file = tmp_path / "kernels.metal"
    file.write_text(KERNELS)
    command = [sys.executable, "-m", "mpsx", "shader", str(file), "--run", "contiguous", "--threads", "256"]
    command += ["--arg", "zeros:float32:256", "--arg", "ones:float32:256", "--profile"]
    environment = os.environ | {"MPSX_CACHE_DIR": str(tmp_path)}  # don't compile mpsx's own kernels
    runs = [subprocess.run([*command, *how], cwd=tmp_path.parent, env=environment, capture_output=True, text=True,
                           check=True)
            for how in ([], ["source"])]  # fmt: skip
    shown = [run.stdout for run in runs]
    assert not any(run.stderr for run in runs)
    assert not [path for path in tmp_path.glob("objects/*") if path.stat().st_size > 1 << 16]
    expected = "traffic 1.00 times distinct bytes, transactions 1.00 times the minimum, 4.0 bytes per lane"
    assert expected in shown[0]
    annotated = next(line for line in shown[1].split("\n") if "y[i] = x[i] * 2.0f" in line)
    assert annotated.split()[:5] == ["2048", "B", "1.00x", "100.0%", "512"]


@pytest.mark.usefixtures("simt_library")
def test_whole_process() -> None:
    run = run_in_subprocess("torch.ones(64, device='mpsx').add_(1.0).cpu()", MPSX_DRIVER="simt", MPSX_SIMT_PROFILE="1")
    assert re.search(r"device memory: traffic .* times distinct bytes", run.stderr), run.stderr


def test_other_drivers() -> None:
    run = run_in_subprocess("import mpsx; mpsx.profiler.profile_kernel(print)", MPSX_DRIVER="host")
    assert "kernel profiling needs the simt driver (MPSX_DRIVER=simt), got host" in run.stderr


IR = """define void @f(ptr %x, ptr %y) {{
  %x4 = getelementptr inbounds i8, ptr %x, i64 4
  %x8 = getelementptr inbounds i8, ptr %x, i64 8
  %x12 = getelementptr inbounds i8, ptr %x, i64 12
  %a = load float, ptr %x, align {0}
  %b = load float, ptr %x4, align 4
{1}
  %c = load float, ptr %x8, align 8
  %d = load float, ptr %x12, align 4
  ret void
}}
"""


@pytest.mark.parametrize(("alignment", "between", "sizes"), [
    (16, "", [16]),
    (8, "", [8, 8]),
    (4, "", [4, 4, 8]),
    (16, "  store float %a, ptr %y, align 4", [8, 4, 8]),  # the store may alias the later loads
    (16, "  store float %a, ptr %x, align 4", [16, 4]),
    (16, "  call void @g()", [8, 8]),
    (16, "  %s = call float @llvm.sqrt.f32(float %a)", [16]),
])  # fmt: skip
def test_wide_accesses(alignment: int, between: str, sizes: list[int]) -> None:
    """The profiler merges accesses that a GPU compiler may merge."""
    assert sorted(s[1] for s in instrument(IR.format(alignment, between))[1].sites) == sorted(sizes)
