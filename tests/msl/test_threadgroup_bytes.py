"""A kernel's record contains the total size of its threadgroup variables."""

import pytest

SOURCE = """
#include <metal_stdlib>
using namespace metal;
struct Pair { float a; char b; };
constant constexpr int kRows = 3;
namespace inner {
kernel void plain(device float* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  const uint n = 8 * kRows;
  threadgroup float s[n], t[2][4];
  threadgroup Pair p;
  threadgroup float* q = s;
  { constexpr int n = 2; threadgroup char c[n]; c[0] = 1; o[1] = c[0]; }
  threadgroup atomic_uint u;
  atomic_store_explicit(&u, 1u, memory_order_relaxed);
  threadgroup float3 v[2];
  threadgroup half (*h)[4] = nullptr;
  s[0] = t[0][0] = p.a = 1; v[0] = float3(1.5);
  o[i] = q[0] + s[0] + v[0].x + (h ? 1 : 0);
}
}
template <typename T, int N = 4, typename A = float>
[[kernel]] void temp(device T* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  using U = metal::vec<T, 4>;
  constexpr int M = N * N;
  enum { K = M / 2 };
  threadgroup U s[K];
  threadgroup A acc[1];
  s[0] = U(1); acc[0] = 1;
  o[i] = s[0].x + T(acc[0]);
}
template [[host_name("temp_f")]] kernel decltype(temp<float, 8>) temp<float, 8>;
template [[host_name("temp_h")]] [[kernel]] void temp<half, 8, half>(device half*, uint);
namespace sizes { constant constexpr int kTile = 5; namespace deep { constant constexpr int kTile2 = 6; } }
kernel void directive(device float* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  using namespace sizes;
  namespace d = sizes::deep;
  constexpr int M = kTile * d::kTile2;
  threadgroup float s[M + kTile];
  s[0] = 1; o[i] = s[0];
}
kernel void none(device float* o [[buffer(0)]], uint i [[thread_position_in_grid]]) { o[i] = 1; }
"""
# Computed by hand. Each variable is placed at a multiple of its alignment.
EXPECTED = {
    "plain": 96 + 32 + 8 + 2 + 2 + 4 + 32,  # s, t, p, c, padding, u, v
    "temp_f": 32 * 16 + 4,
    "temp_h": 32 * 8 + 2,
    "directive": 4 * (5 * 6 + 5),
    "none": 0,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_static_threadgroup_bytes(msl, name):
    assert msl(SOURCE).records[name].static_threadgroup_bytes == EXPECTED[name]
