"""Metal Shading Language features that the translator supports."""

import numpy as np
import pytest

SOURCE = """
#include <metal_stdlib>
#include <metal_atomic>
using namespace metal;

// Swizzles, on both sides of an assignment, with operators and functions.
kernel void swizzles(device float4* v [[buffer(0)]], device float* out [[buffer(1)]]) {
  float4 a = v[0];
  float2 b = a.zw;
  a.xy = b.yx + a.wz * 2.0f;
  a.w += 1;
  float3 c = a.rgb.zyx;
  c.xz *= float2(10, 100);
  v[1] = float4(c.zyx, a.w);
  out[0] = dot(a.xy, b) + a.yxwz[1] + a[2];
  out[1] = length(float3(b, 2.0f).xyz);
  out[2] = all(a.xy == a.xy) && any(a.xyz > float3(1e9f, -1e9f, 1e9f)) ? 1 : 0;
  out[3] = max(a, 2.5f).x + select(a, -a, a > 0).w + clamp(a.y, -1.0f, 1.0f) + exp2(float2(3, 4)).y;
}
kernel void vectors(device int4* v [[buffer(0)]], device uchar4* u [[buffer(1)]],
                    device packed_float3* p [[buffer(2)]]) {
  int4 a = v[0];
  v[1] = (a << 2) % 7 & ~int4(1) | (a ^ 3);
  v[2] = int4(a.xy, a.x - a.y, -a.z);
  v[3] = int4(float4(a) * 0.5f);
  u[0] = uchar4(a) + uchar4(250);
  float3 q = p[0];
  p[1] = q.zyx + 1;
  p[1][0] = 9;
}

// Atomics.
kernel void atomics(device atomic_uint* counts [[buffer(0)]], device atomic_float* sum [[buffer(1)]],
                    device atomic_int* extremes [[buffer(2)]], device const int* x [[buffer(3)]],
                    uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&counts[x[i] & 3], 1u, memory_order_relaxed);
  atomic_fetch_add_explicit(sum, float(x[i]), memory_order_relaxed);
  atomic_fetch_min_explicit(&extremes[0], x[i], memory_order_relaxed);
  atomic_fetch_max_explicit(&extremes[1], x[i], memory_order_relaxed);
  int expected = atomic_load_explicit(&extremes[2], memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&extremes[2], &expected, expected ^ x[i], memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
  if (i == 0) atomic_store_explicit(&extremes[3], 77, memory_order_relaxed);
  if (i == 0) atomic_exchange_explicit(&extremes[4], 78, memory_order_relaxed);
}

// Integer functions.
kernel void integers(device ulong* out [[buffer(0)]], constant uint& u [[buffer(1)]], constant int& s [[buffer(2)]]) {
  out[0] = clz(u); out[1] = ctz(u); out[2] = popcount(u); out[3] = mulhi(u, 0x80000001u);
  out[4] = rotate(u, 8u); out[5] = abs(s); out[6] = absdiff(s, 5); out[7] = clz(ushort(u)); out[8] = reverse_bits(u);
  out[9] = extract_bits(u, 4, 8); out[10] = insert_bits(u, 0xffu, 8, 8); out[11] = addsat(u, 0xf0000000u);
  out[12] = ulong(mulhi(long(s), 1l << 62)); out[13] = hadd(s, 4); out[14] = ctz(0u); out[15] = clz(ulong(1));
  out[16] = as_type<uint>(1.0f); out[17] = max(s, 3) + min(u, 9u) + clamp(s, -2, 2);
}

// Templates, type traits, lambdas, globals, structs by reference, namespaces.
namespace detail {
template <typename T> struct Wide { using type = float; };
template <> struct Wide<int> { using type = long; };
template <typename T, uint N> struct Box {
  T items[N];
  T sum() const thread { T r = 0; for (uint i = 0; i < N; ++i) r += items[i]; return r; }
};
}
constant constexpr uint kCount = 3;
constant float kTable[kCount] = {1.0, 2.5e0, .5};
template <typename T> constant constexpr bool is_wide = sizeof(T) > 4;
struct Params { uint n; float scale[2]; ushort flags; };
template <typename T, enable_if_t<is_integral_v<T>, bool> = true> T twice(T x) { return x + x; }
template <typename T, enable_if_t<!is_integral<T>::value, bool> = true> T twice(T x) { return x * 2; }
float apply(thread const float& x, device const float* y, threadgroup float* scratch) {
  scratch[0] = x;
  return scratch[0] + y[0];
}
template <typename T, int OFFSET = 2>
kernel void features(device typename detail::Wide<T>::type* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     constant Params& p [[buffer(2)]], constant float* list [[buffer(3)]],
                     uint3 gid [[thread_position_in_grid]], uint3 size [[threads_per_grid]]) {
  using W = typename detail::Wide<T>::type;
  auto scale = [&](W v) { return W(v * p.scale[gid.y]); };
  detail::Box<W, kCount> box = {{1, 2, W(kTable[2] * 2)}};
  const uint at = gid.x + size.x * (gid.y + size.y * gid.z);
  out[at] = scale(twice(W(in[at]))) + OFFSET + box.sum() + W(list[1]) + p.flags;
  if constexpr (is_wide<T>) out[at] = 0;
  static_assert(metal::is_same_v<conditional_t<true, int, float>, int>, "conditional");
}
template [[host_name("features_" "i32")]] kernel decltype(features<int>) features<int>;
template [[host_name("features_f32")]] [[kernel]] decltype(features<float, -1>) features<float, -1>;

// Threadgroups of one thread.
kernel void groups(device float* out, device const float* x, constant uint& n,
                   threadgroup float* scratch [[threadgroup(0)]], uint row [[threadgroup_position_in_grid]],
                   uint t [[thread_position_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]], uint width [[threads_per_simdgroup]]) {
  threadgroup float partial[8];
  float s = 0;
  MPSX_REDUCE(+ : s)
  for (uint i = t; i < n; i += threads) s += x[row * n + i];
  for (uint d = width / 2; d > 0; d /= 2) s += simd_shuffle_down(s, d);
  partial[lane] = simd_sum(s);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  scratch[0] = apply(partial[0], x, scratch);
  out[row] = scratch[0];
}
kernel void shuffle(device float* out [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {
  out[0] = simd_shuffle_down(1.0f, 16);
}
kernel void small_positions(device ushort2* out [[buffer(0)]], ushort2 g [[thread_position_in_grid]]) { out[g.x] = g; }
"""


@pytest.fixture(scope="module")
def library(msl):
    return msl(SOURCE)


def test_swizzles(library):
    v = np.array([[1, 2, 3, 4], [0, 0, 0, 0]], np.float32)
    out = np.zeros(4, np.float32)
    library("swizzles", v, out, grid=(1,))
    a = np.array([4 + 4 * 2, 3 + 3 * 2, 3, 5], np.float32)
    c = np.array([a[2] * 10, a[1], a[0] * 100])
    np.testing.assert_array_equal(v[1], [c[2], c[1], c[0], a[3]])
    np.testing.assert_allclose(out, [a[0] * 3 + a[1] * 4 + a[0] + a[2], np.sqrt(9 + 16 + 4), 1,
                                     a[0] - a[3] + 1 + 16], rtol=1e-6)


def test_vectors(library):
    v = np.zeros((4, 4), np.int32)
    v[0] = [5, -6, 7, 100]
    u, p = np.zeros(4, np.uint8), np.arange(8, dtype=np.float32)
    library("vectors", v, u, p, grid=(1,))
    shifted = np.fmod(v[0] << 2, 7)
    np.testing.assert_array_equal(v[1], shifted & ~1 | (v[0] ^ 3))
    np.testing.assert_array_equal(v[2], [5, -6, 11, -7])
    np.testing.assert_array_equal(v[3], [2, -3, 3, 50])
    np.testing.assert_array_equal(u, (v[0] + 250).astype(np.uint8))
    np.testing.assert_array_equal(p[:6], [0, 1, 2, 9, 2, 1])


def test_atomics(library):
    x = np.random.default_rng(0).integers(-1000, 1000, 4096).astype(np.int32)
    counts, total = np.zeros(4, np.uint32), np.zeros(1, np.float32)
    extremes = np.zeros(5, np.int32)
    library("atomics", counts, total, extremes, x, grid=(x.size,))
    np.testing.assert_array_equal(counts, np.bincount(x & 3, minlength=4))
    assert total[0] == x.sum()
    assert extremes.tolist() == [x.min(), x.max(), np.bitwise_xor.reduce(x), 77, 78]


def test_integers(library):
    u, s = 0x00F05010, -7
    out = np.zeros(18, np.uint64)
    library("integers", out, np.array([u], np.uint32), np.array([s], np.int32), grid=(1,))
    want = [8, 4, bin(u).count("1"), u * 0x80000001 >> 32, (u << 8 | u >> 24) & 0xFFFFFFFF, 7, 12, 1,
            int(f"{u:032b}"[::-1], 2), u >> 4 & 0xFF, u | 0xFF00, u + 0xF0000000, (s << 62 >> 64) % 2**64,
            (s + 4 >> 1) % 2**64, 32, 63, 0x3F800000, 3 + 9 - 2]
    assert out.tolist() == want


@pytest.mark.parametrize(("tag", "offset"), [("i32", 2), ("f32", -1)])
def test_templates_and_grids(library, tag, offset):
    shape = (2, 2, 5)  # z, y, x
    x = np.arange(20).reshape(shape).astype(np.int32 if tag == "i32" else np.float32)
    out = np.zeros(shape, np.int64 if tag == "i32" else np.float32)
    params = np.zeros(1, [("n", "u4"), ("scale", "f4", 2), ("flags", "u2"), ("pad", "u2")])
    params["scale"], params["flags"] = [3, 5], 7
    name = f"features_{tag}"
    for part in ((0, 7), (7, 8), (8, 20)):  # dispatch the grid in three parts
        library(name, out, x, params, np.array([0, 4], np.float32), grid=shape[::-1], part=part)
    np.testing.assert_array_equal(out, 2 * x * np.array([3, 5])[None, :, None] + offset + 4 + 4 + 7)
    assert library.records[name].unit == 0
    assert library.records[name].buffers == 4


def test_threadgroups(library):
    x = np.random.default_rng(0).standard_normal((6, 1000)).astype(np.float32)
    out, scratch = np.zeros(6, np.float32), np.zeros(4, np.float32)
    library("groups", out, x, np.array([1000], np.uint32), grid=(6,), threadgroup=[scratch])
    np.testing.assert_allclose(out, x.astype(np.float64).sum(1) + x[0, 0], rtol=1e-5, atol=1e-4)
    assert library.records["groups"].unit == 1
    assert library.records["groups"].buffers == 3


def test_poison(msl):
    """Builds with MPSX_POISON_SHUFFLES return NaN when a shuffle reads a different lane."""
    out = np.zeros(1, np.float32)
    msl(SOURCE)("shuffle", out, grid=(1,))
    assert out[0] == 1
    msl(SOURCE, defines=("MPSX_POISON_SHUFFLES",))("shuffle", out, grid=(1,))
    assert np.isnan(out[0])


def test_small_positions(library):
    out = np.zeros((3, 2), np.uint16)
    library("small_positions", out, grid=(3,))
    assert out.tolist() == [[0, 0], [1, 0], [2, 0]]


def test_shards_contain_the_same_kernels(msl, library):
    sharded = msl(SOURCE, shards=3)
    assert sharded.records.keys() == library.records.keys()
