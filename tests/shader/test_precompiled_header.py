"""The precompiled header of the Metal standard library changes how fast code for NVIDIA GPUs compiles, and nothing
else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsx.msl import ptx
from mpsx.msl.compiler import find_compiler, writes_ptx
from mpsx.shader.cache import Cache
from mpsx.shader.compiler import Builder
from mpsx.shader.toolchain import Target

SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void norms(device float* y, constant float4* x, uint i [[thread_position_in_grid]]) {
  y[i] = length(x[i]) + exp(x[i].y) + simd_sum(x[i].z);
}
"""


def build(folder: Path) -> dict[str, str]:
    """Build SOURCE in a new cache. Return the PTX of its kernels."""
    folder.mkdir()
    cache = Cache(folder, 1 << 30)
    record = Builder(cache, Target("sm_80", "cuda"), [], "norms.metal", SOURCE).build(SOURCE, "key")
    return dict(ptx.unpack(cache.path(record["library"])))


def test_same_ptx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not writes_ptx(find_compiler()):
        pytest.skip("the kernel compiler has no backend for NVIDIA GPUs (ziglang's has)")
    found = build(tmp_path / "precompiled")
    assert [*(tmp_path / "precompiled").glob("msl.pch-*")]
    monkeypatch.setattr(Builder, "start_shared_files", lambda *_: (None, None))
    assert build(tmp_path / "textual") == found
    assert found.keys() == {"norms"}
    assert not [*(tmp_path / "textual").glob("msl.pch-*")]
