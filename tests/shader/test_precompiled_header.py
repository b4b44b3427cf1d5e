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

SOURCES = {
    "scalars": """#include <metal_stdlib>
using namespace metal;
kernel void norms(device float* y, constant float4* x, uint i [[thread_position_in_grid]]) {
  y[i] = length(x[i]) + exp(x[i].y) + simd_sum(x[i].z);
}
""",
    "tensors": """#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
kernel void gemm(device half* a, device half* b, device float* c, constant int& k) {
  constexpr auto what = matmul2d_descriptor(64, 32, dynamic_length_v<int>);
  matmul2d<what, execution_simdgroups<4>> op;
  auto A = tensor(a, dextents<int, 2>(k, 64));
  auto B = tensor(b, dextents<int, 2>(32, k));
  auto sum = op.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  op.run(A, B, sum);
  sum.store(tensor(c, dextents<int, 2>(32, 64)));
}
""",
}


def build(folder: Path, source: str) -> dict[str, str]:
    """Build a source in a new cache. Return the PTX of its kernels."""
    folder.mkdir()
    cache = Cache(folder, 1 << 30)
    record = Builder(cache, Target("sm_80", "cuda"), [], "test.metal", source).build(source, "key")
    return dict(ptx.unpack(cache.path(record["library"])))


@pytest.mark.parametrize("name", SOURCES)
def test_same_ptx(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not writes_ptx(find_compiler()):
        pytest.skip("the kernel compiler has no backend for NVIDIA GPUs (ziglang's has)")
    found = build(tmp_path / "precompiled", SOURCES[name])
    assert [*(tmp_path / "precompiled").glob("msl.pch-*")]
    monkeypatch.setattr(Builder, "start_shared_files", lambda *_: (None, None))
    assert build(tmp_path / "textual", SOURCES[name]) == found
    assert len(found) == 1
    assert not [*(tmp_path / "textual").glob("msl.pch-*")]
