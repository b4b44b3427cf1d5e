// Votes, branches, loops, barriers, positions, and threadgroup memory.
#include <metal_stdlib>
using namespace metal;

kernel void votes(device ulong* out [[buffer(0)]], device const uchar* flags [[buffer(1)]],
                  uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  const bool flag = flags[i] != 0;
  device ulong* o = out + i * 14;
  if (lane % 3 == 0) return;
  o[0] = ulong(simd_vote::vote_t(simd_ballot(flag)));
  o[1] = simd_any(flag);
  o[2] = simd_all(flag);
  o[3] = ulong(simd_vote::vote_t(simd_active_threads_mask()));
  o[4] = simd_is_first();
  o[5] = simd_ballot(flag).any();
  o[6] = simd_ballot(flag).all();
  o[7] = ulong(quad_vote::vote_t(quad_ballot(flag)));
  o[8] = quad_any(flag);
  o[9] = quad_all(flag);
  o[10] = ulong(quad_vote::vote_t(quad_active_threads_mask()));
  o[11] = quad_is_first();
  o[12] = quad_ballot(flag).any();
  o[13] = simd_is_helper_thread() || quad_is_helper_thread();
}

inline float counted(float x) { return simd_sum(x); }
kernel void branches(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]],
                     uint lane [[thread_index_in_simdgroup]]) {
  device float* o = out + i * 6;
  if (lane < 10) o[0] = simd_sum(1.0f); else o[0] = -simd_sum(1.0f);
  float rounds = 0;
  for (uint k = 0; k <= lane; ++k) rounds += simd_sum(1.0f);  // fewer lanes are active in each iteration
  o[1] = rounds;
  o[2] = simd_sum(1.0f);  // all lanes are active again
  float odd = 0;
  if (lane & 1) odd = counted(1.0f);
  o[3] = odd;
  o[4] = counted(1.0f);
  switch (lane % 4) {
    case 0: o[5] = simd_sum(1.0f); break;
    case 1: o[5] = simd_sum(2.0f); break;
    default: o[5] = simd_sum(3.0f);
  }
}

// Lanes leave the loop in different iterations and then reach barriers.
kernel void left_early(device float* out [[buffer(0)]], device const uint* limits [[buffer(1)]],
                       uint i [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float sums[32];
  float s = 0;
  for (uint k = 0;; ++k) {
    if (k >= limits[i]) break;
    s += simd_sum(1.0f);
    simdgroup_barrier(mem_flags::mem_none);
  }
  const float all = simd_sum(s);
  if (lane == 0) sums[i / 32] = all;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = sums[i / 32] + s;
}

kernel void reversed(device int* out [[buffer(0)]], device const int* x [[buffer(1)]],
                     threadgroup int* shared [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]],
                     uint n [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  threadgroup int twice[1024];
  for (uint round = 0; round < 3; ++round) {
    shared[i] = (round == 0 ? x[group * n + i] : twice[i]) + 1;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    twice[n - 1 - i] = shared[i] * 2;
    threadgroup_barrier(mem_flags::mem_threadgroup, thread_scope_threadgroup);
  }
  out[group * n + i] = twice[i];
}

kernel void positions(device uint* out [[buffer(0)]], uint3 p [[thread_position_in_grid]],
                      uint3 size [[threads_per_grid]], ushort3 group [[threadgroup_position_in_grid]],
                      uint3 groups [[threadgroups_per_grid]], uint3 local [[thread_position_in_threadgroup]],
                      uint index [[thread_index_in_threadgroup]], ushort2 threads [[threads_per_threadgroup]],
                      uint3 dispatched [[dispatch_threads_per_threadgroup]], ushort lane [[thread_index_in_simdgroup]],
                      uint simdgroup [[simdgroup_index_in_threadgroup]], uint simdgroups [[simdgroups_per_threadgroup]],
                      uint dispatched_simdgroups [[dispatch_simdgroups_per_threadgroup]],
                      uint width [[threads_per_simdgroup]], uint execution [[thread_execution_width]],
                      uint quad_lane [[thread_index_in_quadgroup]], uint quad [[quadgroup_index_in_threadgroup]],
                      uint quads [[quadgroups_per_threadgroup]],
                      uint dispatched_quads [[dispatch_quadgroups_per_threadgroup]]) {
  const uint values[] = {p.x,     p.y,         p.z,       size.x,       size.y,       size.z,    group.x,
                         group.y, group.z,     groups.x,  groups.y,     groups.z,     local.x,   local.y,
                         local.z, index,       threads.x, threads.y,    dispatched.x, dispatched.y, dispatched.z,
                         lane,    simdgroup,   simdgroups, dispatched_simdgroups, width, execution, quad_lane,
                         quad,    quads,       dispatched_quads};
  device uint* o = out + 31 * (p.x + size.x * (p.y + size.y * p.z));
  for (uint k = 0; k < 31; ++k) o[k] = values[k];
}

// Each threadgroup variable has its own memory, which all threads share.
struct Pair {
  float2 a;
  int b[3];
};
template <typename T, uint N>
struct Box {
  T items[N];
};
template <typename T, uint N>
kernel void variables(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup T first[N], second[2][N];
  threadgroup Pair pair;
  threadgroup Box<T, 2> boxes[N];  // a type with template arguments
  threadgroup atomic_uint count;
  if (i == 0) {
    atomic_store_explicit(&count, 0u, memory_order_relaxed);
    pair.a = float2(1, 2);
    pair.b[2] = 3;
  }
  first[i] = T(i);
  second[0][i] = T(i + 1);
  second[1][i] = T(i + 2);
  boxes[i].items[1] = T(i);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&count, i, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint j = (i + 1) % N;
  threadgroup T* row = second[1];
  out[i] = float(first[j]) + 100 * float(second[0][j]) + 10000 * float(row[j]) + pair.a.y + float(pair.b[2]) +
           float(boxes[N - 1 - i].items[1]) + float(atomic_load_explicit(&count, memory_order_relaxed));
}
template [[host_name("variables_float")]] kernel decltype(variables<float, 64>) variables<float, 64>;
template [[host_name("variables_half")]] kernel decltype(variables<half, 64>) variables<half, 64>;
