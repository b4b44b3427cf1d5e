"""On CPUs, the compiler vectorizes the kernel loops that tests/msl/vectorized.py selects."""

import subprocess

import pytest
import vectorized
from msl.compiler import find_compiler, is_x86
from msl.source import MslError
from msl.translate import translate


@pytest.fixture(autouse=True)
def clang():
    """Skip unless the compiler is clang, the only one whose optimization records vectorized.py reads."""
    try:
        compiler = find_compiler()
    except MslError as error:
        pytest.skip(str(error))
    if "clang" not in compiler.description:
        pytest.skip(f"the kernel compiler is {compiler.description}")


def test_sample():
    assert vectorized.findings(["swiglu", "gather"]) == []


@pytest.mark.sweep  # compiles every kernel file
def test_all():
    assert vectorized.findings([]) == []


def test_scalar_loop_is_found(tmp_path, monkeypatch):
    folder = tmp_path / "metal" / "scratch"
    folder.mkdir(parents=True)
    (folder / "chain.metal").write_text(CHAIN)
    monkeypatch.setattr(vectorized, "SOURCES", tmp_path / "metal")
    (found,) = vectorized.findings(["chain"])
    assert "chain_f32" in found
    monkeypatch.setitem(vectorized.EXCUSED, "chain_f32", "each step depends on the previous one")
    assert vectorized.findings(["chain"]) == []


@pytest.mark.skipif(not is_x86(), reason="looks for an x86 instruction")
def test_launch_conditions_do_not_mask_loads(tmp_path):
    source, compiler = tmp_path / "elementwise_scratch.metal", find_compiler()
    source.write_text(PRODUCT)
    (path,), _ = translate(str(source), f"{tmp_path}/elementwise_scratch.cpp", [str(vectorized.SOURCES)], [],
                           compiler.preprocessor())  # fmt: skip
    flags = [*compiler.clang_flags("x86-64-v3", "wide"), *compiler.source_flags(path)]
    subprocess.run([*compiler.clang, *flags, "-S", path, "-o", f"{path}.s"], check=True)
    with open(f"{path}.s") as file:
        assert "vmaskmov" not in file.read()


PRODUCT = """#include "elementwise/kernels.h"
struct mul_op {
  template <typename C>
  static C apply(C a, C b, Scalars<C>) { return a * b; }
};
MPSX_PLAIN_BINARY_KERNELS(float, f32, mul, float)
"""
CHAIN = """#include "lib/instantiate.h"
#include "lib/types.h"
template <typename T>
kernel void chain(device T* out [[buffer(0)]], constant uint& n [[buffer(1)]],
                  uint group [[threadgroup_position_in_grid]]) {
  T x = out[group];
  MPSX_VECTORIZE
  for (uint i = 0; i < n; ++i) x = x * x - T(0.5f);
  out[group] = x;
}
MPSX_KERNEL("chain_f32", chain<float>)
"""
