"""The packaged library has two versions of each tensor kernel, for Hopper and for older GPUs, but one of all others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mpsx.msl.compiler import find_compiler, writes_ptx
from mpsx.msl.ptx import nvidia_program, unpack
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
KERNELS = """
MPSX_KERNEL("matmul_tensor_64x128_nt_f16", matmul_tensor<half, Tile64x128, false, true, false, false, false>)
MPSX_KERNEL("matmul_tensor_cluster_128x128_tn_f16", matmul_tensor_cluster<half, Tile128x128, 2, 2, true, false>)
MPSX_KERNEL("matmul_tensor_cluster_64x128_nt_f16", matmul_tensor_cluster<half, Tile64x128, 4, 2, false, true>)
MPSX_KERNEL("matmul_tensor_act_128x128_nt_f16", matmul_tensor<half, Tile128x128, false, true, false, true, true>)
MPSX_KERNEL("matmul_tensor_several_128x192_tn_f16", matmul_tensor_several<half, Tile128x192, true, false>)
"""

pytestmark = pytest.mark.skipif(not writes_ptx(find_compiler()),
                                reason="the kernel compiler has no backend for NVIDIA GPUs (ziglang's has)")


def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tmp_path / "metal"
    for folder in ("lib", "matmul"):
        shutil.copytree(METAL / folder, sources / folder, ignore=shutil.ignore_patterns("*.metal"))
    text = (METAL / "matmul" / "matmul_tensor.metal").read_text()
    kept = text[: text.index("// Kernels for any alignment.\n")] + KERNELS  # keep only five kernels
    (sources / "matmul" / "matmul_tensor.metal").write_text(kept)
    (sources / "matmul" / "copy.metal").write_text(PLAIN)
    monkeypatch.setattr(kernel_library, "SOURCES", sources)
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "cache"))
    found = sorted((name, text) for name, text in unpack(kernel_library.library("cuda")))
    names = [f"matmul_tensor_{name}_f16" for name in ("64x128_nt", "act_128x128_nt", "cluster_128x128_tn",
                                                      "cluster_64x128_nt", "several_128x192_tn")]  # fmt: skip
    assert [name for name, _ in found] == ["copy", *(name for name in names for _ in range(2))]
    assert ".target sm_80" in found[0][1]
    for target, instruction in (("sm_90a", "wgmma.mma_async"), ("sm_80", "mma.sync")):
        texts = [text for name, text in found if name in names and f".target {target}" in text]
        assert len(texts) == 5 and all(instruction in text for text in texts)
        for size in (4, 8):
            assert sum(f".reqnctapercluster {size}, 1, 1" in text for text in texts) == (target == "sm_90a")
        if target == "sm_90a" and (ptxas := nvidia_program("ptxas")):
            for i, text in enumerate(texts):
                check_assembly(ptxas, text, tmp_path / f"{i}.ptx")


def check_assembly(ptxas: str, text: str, where: Path) -> None:
    """The assembler serializes wgmma in kernels with calls, for example to divide 64-bit integers."""
    where.write_text(text)
    command = [ptxas, "-v", "-c", "-arch=sm_90a", str(where), "-o", f"{where}.cubin"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "serialized" not in said, said
    assert "0 bytes spill stores" in said, said
