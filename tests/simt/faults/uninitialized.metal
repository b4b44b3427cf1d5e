// Threads read threadgroup memory that no thread of the threadgroup has written.
#include <metal_stdlib>
using namespace metal;

kernel void never_written(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  out[tid] = s[tid];  // fault: never_written
}

kernel void partly_written(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  if (tid < 60) s[tid] = 1.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 0) {
    float sum = 0.0f;
    for (uint i = 0; i < 64; ++i) {
      sum += s[i];  // fault: partly_written
    }
    out[0] = sum;
  }
}

kernel void written_by_another_group(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                                     uint group [[threadgroup_position_in_grid]]) {
  threadgroup float s[64];
  if (group == 0) s[tid] = 1.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[group * 64 + tid] = s[tid];  // fault: written_by_another_group
}

kernel void sum_without_initial_value(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  s[tid] += 1.0f;  // fault: sum_without_initial_value
  out[tid] = s[tid];
}

kernel void bins_without_initial_value(device uint* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup atomic_uint bins[8];
  atomic_fetch_add_explicit(&bins[tid % 8], 1u, memory_order_relaxed);  // fault: bins_without_initial_value
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid < 8) out[tid] = atomic_load_explicit(&bins[tid], memory_order_relaxed);
}

kernel void argument_not_written(device float* out [[buffer(0)]], threadgroup half* s [[threadgroup(0)]],
                                 uint tid [[thread_position_in_threadgroup]]) {
  if (tid % 2) s[tid] = half(tid);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = float(s[tid]);  // fault: argument_not_written
}

// Correct: copies of padded structs and of three-component vectors include padding that no thread wrote.
struct Padded {
  uchar small;
  float value;
};
struct Best {
  int key;
  long index;
};
static float3 combined(float3 a, float3 b) { return float3(a.x + b.x * a.z, a.y + b.y + a.z, a.z + b.z); }
kernel void correct_initialization(device float* out [[buffer(0)]], threadgroup short* t [[threadgroup(0)]],
                              uint tid [[thread_position_in_threadgroup]]) {
  threadgroup Padded padded[64];
  threadgroup Best best[64];
  threadgroup float3 threes[64];
  threadgroup atomic_uint bins[8];
  threadgroup bool flag;
  if (tid == 0) flag = true;
  if (tid < 8) atomic_store_explicit(&bins[tid], 0u, memory_order_relaxed);
  padded[tid] = {uchar(tid), float(tid)};
  best[tid] = {int(tid), long(tid)};
  threes[tid] = float3(float(tid));
  t[tid] = short(tid);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&bins[tid % 8], 1u, memory_order_relaxed);
  const uint other = 63 - tid;
  Padded p = padded[other];
  Best b = best[other];
  float3 three = threes[other];
  // The compiler may copy a float3 in two parts.
  for (uint i = 0; i < 4; ++i) three = combined(three, 0.0f * threes[(tid + i) % 64]);
  out[tid] = p.value + float(p.small) + float(b.index + b.key) + three.z + float(t[other]) + (flag ? 1.0f : 0.0f);
}
