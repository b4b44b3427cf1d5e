// Textbook kernels, as in sample code, courses and blog posts.
#include <metal_stdlib>
using namespace metal;

// feature: tiled matmul
#define TILE 16
typedef struct {
  uint M, N, K;
  float alpha, beta;
} GemmParams;
kernel void matmul_tiled(const device float* A [[buffer(0)]], const device float* B [[buffer(1)]],
                         device float* C [[buffer(2)]], constant GemmParams& p [[buffer(3)]],
                         uint2 tid [[thread_position_in_threadgroup]], uint2 gid [[threadgroup_position_in_grid]]) {
  threadgroup float As[TILE][TILE];
  threadgroup float Bs[TILE][TILE + 1];
  const uint row = gid.y * TILE + tid.y, col = gid.x * TILE + tid.x;
  float acc = 0.0f;
  for (uint t = 0; t < (p.K + TILE - 1) / TILE; ++t) {
    const uint ka = t * TILE + tid.x, kb = t * TILE + tid.y;
    As[tid.y][tid.x] = (row < p.M && ka < p.K) ? A[row * p.K + ka] : 0.0f;
    Bs[tid.y][tid.x] = (kb < p.K && col < p.N) ? B[kb * p.N + col] : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < TILE; ++k) acc = fma(As[tid.y][k], Bs[k][tid.x], acc);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (row < p.M && col < p.N) C[row * p.N + col] = p.alpha * acc + p.beta * C[row * p.N + col];
}

// feature: matmul with simdgroup_matrix of float, half and bfloat
template <typename T, typename U, int BM, int BN, int BK>
[[kernel, max_total_threads_per_threadgroup(128)]] void gemm_simdgroup(
    device const T* A [[buffer(0)]], device const T* B [[buffer(1)]], device U* C [[buffer(2)]],
    constant uint3& shape [[buffer(3)]], uint2 group [[threadgroup_position_in_grid]],
    ushort sidx [[simdgroup_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]],
    ushort tid [[thread_index_in_threadgroup]], threadgroup char* raw [[threadgroup(0)]]) {
  auto As = (threadgroup T*)raw;
  auto Bs = (threadgroup T*)(raw + BM * BK * sizeof(T));
  simdgroup_matrix<U, 8, 8> acc[2][2];
  for (auto& r : acc)
    for (auto& m : r) m = simdgroup_matrix<U, 8, 8>(0);
  const uint M = shape.x, N = shape.y, K = shape.z;
  const ushort2 at(sidx % 2 * 16, sidx / 2 * 16);
  A += group.y * BM * K;
  B += group.x * BN;
  for (uint k = 0; k < K; k += BK) {
    for (ushort i = tid; i < BM * BK; i += 128) As[i] = A[i / BK * K + k + i % BK];
    for (ushort i = tid; i < BK * BN; i += 128) Bs[i] = B[(k + i / BN) * N + i % BN];
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
    for (ushort kk = 0; kk < BK; kk += 8) {
      simdgroup_matrix<T, 8, 8> a[2], b[2];
      for (ushort i = 0; i < 2; ++i) {
        simdgroup_load(a[i], As + (at.y + i * 8) * BK + kk, BK);
        simdgroup_load(b[i], Bs, BN, ulong2(at.x + i * 8, kk));
      }
      simdgroup_barrier(mem_flags::mem_none);
      for (ushort i = 0; i < 2; ++i)
        for (ushort j = 0; j < 2; ++j) simdgroup_multiply_accumulate(acc[i][j], a[i], b[j], acc[i][j]);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (ushort i = 0; i < 2; ++i)
    for (ushort j = 0; j < 2; ++j)
      simdgroup_store(acc[i][j], C + (group.y * BM + at.y + i * 8) * N + group.x * BN + at.x + j * 8, N, ulong2(0), false);
  (void)M, (void)lane;
}
#define INSTANTIATE_GEMM(T, U) \
  template [[host_name("gemm_simdgroup_" #T "_" #U)]] kernel decltype(gemm_simdgroup<T, U, 32, 32, 16>) gemm_simdgroup<T, U, 32, 32, 16>;
INSTANTIATE_GEMM(float, float)
INSTANTIATE_GEMM(half, float)
INSTANTIATE_GEMM(half, half)
INSTANTIATE_GEMM(bfloat, float)

// feature: prefix scan
#define N_SCAN 256
#define CONFLICT_FREE(n) ((n) >> 5)
kernel void scan_blocks(device int* data [[buffer(0)]], device int* sums [[buffer(1)]], constant uint& n [[buffer(2)]],
                        ushort tid [[thread_position_in_threadgroup]], ushort block [[threadgroup_position_in_grid]]) {
  threadgroup int temp[2 * N_SCAN + CONFLICT_FREE(2 * N_SCAN)];
  const uint base = block * 2 * N_SCAN;
  int offset = 1;
  const ushort ai = tid, bi = tid + N_SCAN;
  temp[ai + CONFLICT_FREE(ai)] = base + ai < n ? data[base + ai] : 0;
  temp[bi + CONFLICT_FREE(bi)] = base + bi < n ? data[base + bi] : 0;
  for (int d = N_SCAN; d > 0; d >>= 1) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tid < d) {
      int a = offset * (2 * tid + 1) - 1, b = offset * (2 * tid + 2) - 1;
      a += CONFLICT_FREE(a), b += CONFLICT_FREE(b);
      temp[b] += temp[a];
    }
    offset *= 2;
  }
  if (tid == 0) {
    const int last = 2 * N_SCAN - 1 + CONFLICT_FREE(2 * N_SCAN - 1);
    sums[block] = temp[last];
    temp[last] = 0;
  }
  for (int d = 1; d < 2 * N_SCAN; d *= 2) {
    offset >>= 1;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tid < d) {
      int a = offset * (2 * tid + 1) - 1, b = offset * (2 * tid + 2) - 1;
      a += CONFLICT_FREE(a), b += CONFLICT_FREE(b);
      const int t = temp[a];
      temp[a] = temp[b];
      temp[b] += t;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (base + ai < n) data[base + ai] = temp[ai + CONFLICT_FREE(ai)];
  if (base + bi < n) data[base + bi] = temp[bi + CONFLICT_FREE(bi)];
}

// feature: bitonic sort, one step per launch and within a threadgroup
struct KeyValue {
  float key;
  uint value;
  bool operator<(const KeyValue o) const threadgroup { return key < o.key || (key == o.key && value < o.value); }
};
kernel void bitonic_step(device uint* v [[buffer(0)]], constant uint& k [[buffer(1)]], constant uint& j [[buffer(2)]],
                         uint i [[thread_position_in_grid]]) {
  const uint l = i ^ j;
  if (l > i) {
    const bool up = (i & k) == 0;
    if ((v[i] > v[l]) == up) {
      uint t = v[i]; v[i] = v[l]; v[l] = t;
    }
  }
}
kernel void bitonic_local(device float* keys [[buffer(0)]], device uint* values [[buffer(1)]],
                          ushort i [[thread_index_in_threadgroup]], ushort n [[threads_per_threadgroup]]) {
  threadgroup KeyValue s[256];
  s[i] = KeyValue{keys[i], values[i]};
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (ushort k = 2; k <= n; k <<= 1) {
    for (ushort j = k >> 1; j > 0; j >>= 1) {
      const ushort l = i ^ j;
      if (l > i && (s[l] < s[i]) == !(i & k)) {
        KeyValue t = s[i];
        s[i] = s[l];
        s[l] = t;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
  }
  keys[i] = s[i].key, values[i] = s[i].value;
}

// feature: histogram
kernel void histogram(device const uchar4* pixels [[buffer(0)]], device atomic_uint* bins [[buffer(1)]],
                      constant uint& n [[buffer(2)]], uint gid [[thread_position_in_grid]],
                      uint tid [[thread_index_in_threadgroup]], uint tpg [[threads_per_threadgroup]],
                      uint grid [[threads_per_grid]]) {
  threadgroup atomic_uint local[3 * 256];
  for (uint i = tid; i < 3 * 256; i += tpg) atomic_store_explicit(&local[i], 0, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = gid; i < n; i += grid) {
    const uchar4 p = pixels[i];
    atomic_fetch_add_explicit(local + p.r, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(local + 256 + p.g, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&(local + 512)[p.b], 1u, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = tid; i < 3 * 256; i += tpg) {
    const uint count = atomic_load_explicit(&local[i], memory_order_relaxed);
    if (count) atomic_fetch_add_explicit(&bins[i], count, memory_order_relaxed);
  }
}

// feature: n-body simulation
typedef struct {
  vector_float4 position;  // w is the mass
  vector_float4 velocity;
} Body;
static float3 interaction(const float4 bi, const float4 bj, const float softening) {
  float3 r = bj.xyz - bi.xyz;
  float d = dot(r, r) + softening;
  float inv = rsqrt(d);
  return r * (bj.w * inv * inv * inv);
}
kernel void nbody(device const Body* in [[buffer(0)]], device Body* out [[buffer(1)]], constant uint& n [[buffer(2)]],
                  constant float& dt [[buffer(3)]], threadgroup float4* shared [[threadgroup(0)]],
                  const uint g [[thread_position_in_grid]], const uint t [[thread_position_in_threadgroup]],
                  const uint size [[threads_per_threadgroup]]) {
  Body me = in[g];
  float3 a = 0;
  for (uint i = 0; i < n; i += size) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    shared[t] = in[i + t].position;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < size; ++k) a += interaction(me.position, shared[k], 0.01f);
  }
  me.velocity.xyz += a * dt;
  me.position.xyz += me.velocity.xyz * dt;
  out[g] = me;
}

// feature: tree, SIMD-group and atomic reductions
kernel void reduce_tree(device const float* x [[buffer(0)]], device atomic<float>* total [[buffer(1)]],
                        device atomic_uint* largest [[buffer(2)]], constant uint& n [[buffer(3)]],
                        uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]],
                        uint size [[threads_per_threadgroup]], uint sg [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]], uint groups [[simdgroups_per_threadgroup]]) {
  threadgroup float s[1024];
  threadgroup float parts[32];
  s[t] = i < n ? x[i] : 0.0f;
  float m = simd_max(i < n ? x[i] : -INFINITY);
  if (lane == 0) parts[sg] = m;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint d = size / 2; d > 0; d >>= 1) {
    if (t < d) s[t] += s[t + d];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (sg == 0) {
    m = lane < groups ? parts[lane] : -INFINITY;
    m = simd_max(m);
    if (lane == 0) {
      const uint bits = as_type<uint>(m);
      atomic_fetch_max_explicit(largest, bits & 0x80000000u ? ~bits : bits | 0x80000000u, memory_order_relaxed);
    }
  }
  if (t == 0) atomic_fetch_add_explicit(total, s[0], memory_order_relaxed);
}

// feature: transpose and stencil
kernel void transpose(device const half* in [[buffer(0)]], device half* out [[buffer(1)]],
                      constant uint2& size [[buffer(2)]], ushort2 t [[thread_position_in_threadgroup]],
                      ushort2 g [[threadgroup_position_in_grid]], ushort2 block [[threads_per_threadgroup]]) {
  threadgroup half tile[32][33];
  uint x = g.x * 32u + t.x, y = g.y * 32u + t.y;
  for (ushort j = 0; j < 32; j += block.y)
    if (x < size.x && y + j < size.y) tile[t.y + j][t.x] = in[(y + j) * size.x + x];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x = g.y * 32u + t.x, y = g.x * 32u + t.y;
  for (ushort j = 0; j < 32; j += block.y)
    if (x < size.y && y + j < size.x) out[(y + j) * size.y + x] = tile[t.x][t.y + j];
}
constant int RADIUS = 3;
constant float kGauss[2 * RADIUS + 1] = {0.03f, 0.11f, 0.22f, 0.28f, 0.22f, 0.11f, 0.03f};
kernel void stencil(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], constant int& n [[buffer(2)]],
                    uint gid [[thread_position_in_grid]], uint lid [[thread_position_in_threadgroup]],
                    uint ls [[dispatch_threads_per_threadgroup]]) {
  threadgroup float line[256 + 2 * RADIUS];
  const int at = int(lid) + RADIUS, i = int(gid);
  line[at] = i < n ? in[i] : 0;
  if (int(lid) < RADIUS) {
    line[at - RADIUS] = i >= RADIUS ? in[i - RADIUS] : 0;
    line[at + ls] = i + int(ls) < n ? in[i + ls] : 0;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float s = 0;
  for (int k = -RADIUS; k <= RADIUS; k++) s += line[at + k] * kGauss[k + RADIUS];
  if (i < n) out[i] = s;
}
