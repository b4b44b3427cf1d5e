"""The packaged library has two versions of each tensor kernel, for Hopper and for older GPUs, but one of all others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mpsx.msl.compiler import find_compiler, writes_ptx
from mpsx.msl.ptx import unpack
from mpsx.shader import kernel_library

METAL = Path(__file__).parents[3] / "metal"
PLAIN = """
#include <metal_stdlib>
using namespace metal;
kernel void copy(device float* to [[buffer(0)]], device const float* from [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  to[i] = from[i];
}
"""
KERNEL = 'MPSX_KERNEL("matmul_tensor_64x128_nt_f16", matmul_tensor<half, Tile64x128, false, true, false, false>)\n'

pytestmark = pytest.mark.skipif(not writes_ptx(find_compiler()),
                                reason="the kernel compiler has no backend for NVIDIA GPUs (ziglang's has)")


def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tmp_path / "metal"
    for folder in ("lib", "matmul"):
        shutil.copytree(METAL / folder, sources / folder, ignore=shutil.ignore_patterns("*.metal"))
    text = (METAL / "matmul" / "matmul_tensor.metal").read_text()
    kept = text[: text.index("MPSX_TENSOR_16_BIT(128x256)\n")] + KERNEL  # keep only one kernel
    (sources / "matmul" / "matmul_tensor.metal").write_text(kept)
    (sources / "matmul" / "copy.metal").write_text(PLAIN)
    monkeypatch.setattr(kernel_library, "SOURCES", sources)
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "cache"))
    found = sorted((name, text) for name, text in unpack(kernel_library.library("cuda")))
    assert [name for name, _ in found] == ["copy", "matmul_tensor_64x128_nt_f16", "matmul_tensor_64x128_nt_f16"]
    by_target = {".target sm_90a" in text: text for name, text in found if name != "copy"}
    assert "wgmma.mma_async" in by_target[True]
    assert "mma.sync" in by_target[False]
    assert ".target sm_80" in found[0][1]
