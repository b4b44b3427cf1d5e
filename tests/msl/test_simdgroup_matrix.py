"""simdgroup_matrix in SIMD groups of 32 lanes: load, store, multiply and thread_elements."""

import pytest
import torch

import mpsx

SOURCE = """
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
template <typename T>
kernel void matmul(device float* out [[buffer(0)]], device const T* a [[buffer(1)]], device const T* b [[buffer(2)]],
                    constant uint& n [[buffer(3)]], uint2 tile [[threadgroup_position_in_grid]]) {
  simdgroup_matrix<T, 8, 8> x, y;
  simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8>(0.f);
  for (uint k = 0; k < n; k += 8) {
    simdgroup_load(x, a + tile.y * 8 * n + k, n);
    simdgroup_load(y, b, n, ulong2(tile.x * 8, k));
    simdgroup_multiply_accumulate(sum, x, y, sum);
  }
  simdgroup_store(sum, out + tile.y * 8 * n + tile.x * 8, n, 0, false);
}
template [[host_name("matmul_f32")]] kernel decltype(matmul<float>) matmul<float>;
template [[host_name("matmul_f16")]] kernel decltype(matmul<half>) matmul<half>;
template [[host_name("matmul_bf16")]] kernel decltype(matmul<bfloat>) matmul<bfloat>;

kernel void elements(device float* out [[buffer(0)]], device const float* a [[buffer(1)]],
                  ushort lane [[thread_index_in_simdgroup]]) {
  simdgroup_float8x8 x, twice(2.0f);
  simdgroup_load(x, a, 8, 0, true);
  x = x * twice;
  const short quad = lane / 4, row = (quad & 4) + (lane / 2) % 4, column = (quad & 2) * 2 + (lane % 2) * 2;
  out[row * 8 + column] = x.thread_elements()[0];
  out[row * 8 + column + 1] = x.thread_elements()[1] + 100;
}
"""


@pytest.fixture(scope="module")
def library():
    return mpsx.compile_shader(SOURCE)


@pytest.mark.parametrize(("tag", "dtype"), [("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)])
def test_matmul(library, tag, dtype):
    a, b = torch.randint(-4, 5, (16, 16)).to(dtype), torch.randint(-4, 5, (16, 16)).to(dtype)
    out = torch.zeros(16, 16, device="mpsx")
    getattr(library, f"matmul_{tag}")(out, a.to("mpsx"), b.to("mpsx"), 16, threads=[64, 2], group_size=[32, 1],
                                       arg_casts={3: "uint32"})
    assert torch.equal(out.cpu(), a.float() @ b.float())


def test_elements_and_transpose(library):
    a, out = torch.randn(8, 8), torch.zeros(8, 8, device="mpsx")
    library.elements(out, a.to("mpsx"), threads=32, group_size=32)
    want = 2 * a.T
    want[:, 1::2] += 100
    torch.testing.assert_close(out.cpu(), want)
