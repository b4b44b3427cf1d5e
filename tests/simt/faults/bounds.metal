// Accesses outside the kernel's arguments. Errors must name a line marked "fault:".
#include <metal_stdlib>
using namespace metal;

kernel void read_past_end(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                          uint i [[thread_position_in_grid]]) {
  out[i] = in[i + 1];  // fault: read_past_end
}

kernel void read_before_begin(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                              uint i [[thread_position_in_grid]]) {
  out[i] = in[int(i) - 1];  // fault: read_before_begin
}

kernel void write_past_end(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                           uint i [[thread_position_in_grid]]) {
  const float x = in[i];
  out[i + 3] = x;  // fault: write_past_end
}

kernel void write_half_past_end(device half* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[2 * i + 1] = half(i);  // fault: write_half_past_end
}

kernel void vector_over_the_end(device float* out [[buffer(0)]], device const float4* in [[buffer(1)]],
                                uint i [[thread_position_in_grid]]) {
  out[i] = in[i].x + in[i].w;  // fault: vector_over_the_end
}

kernel void read_far_away(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                          uint i [[thread_position_in_grid]]) {
  out[i] = i == 5 ? in[ulong(i) << 40] : 0.0f;  // fault: read_far_away
}

kernel void argument_is_null(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                             uint i [[thread_position_in_grid]]) {
  out[i] = 2.0f * in[i];  // fault: argument_is_null
}

kernel void constant_past_end(device float* out [[buffer(0)]], constant float* table [[buffer(1)]],
                              uint i [[thread_position_in_grid]]) {
  out[i] = table[i];  // fault: constant_past_end
}

struct Sizes {
  uint rows, columns;
  ulong pad[4];
  float scale;
};
kernel void constant_too_small(device float* out [[buffer(0)]], constant Sizes& sizes [[buffer(1)]],
                               uint i [[thread_position_in_grid]]) {
  out[i] = float(sizes.rows) * sizes.scale;  // fault: constant_too_small
}

kernel void atomic_past_end(device atomic_uint* bins [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&bins[i], 1u, memory_order_relaxed);  // fault: atomic_past_end
}

static float third(device const float* x) {
  return x[3];  // fault: in_a_function
}
kernel void in_a_function(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                          uint i [[thread_position_in_grid]]) {
  out[i] = third(in + i);
}

kernel void threadgroup_past_end(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float before[64];
  threadgroup float s[64];
  threadgroup float after[64];
  threadgroup float* p = s;
  before[tid] = after[tid] = 0.0f;
  p[tid + 1] = 1.0f;  // fault: threadgroup_past_end
  out[tid] = before[tid] + after[tid];
}

kernel void threadgroup_index(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[4][16];
  s[tid / 16][tid % 16 + 1] = 1.0f;  // fault: threadgroup_index
  out[tid] = 0.0f;
}

kernel void threadgroup_argument_past_end(device float* out [[buffer(0)]], threadgroup float* s [[threadgroup(0)]],
                                          uint tid [[thread_position_in_threadgroup]]) {
  s[tid] = 0.0f;  // fault: threadgroup_argument_past_end
  out[tid] = s[tid];
}

kernel void thread_array(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float digits[10];
  for (uint k = 0; k < 10; ++k) digits[k] = float(k);
  out[i] = digits[i];  // fault: thread_array
}

// The last member of a struct, and the library's own arrays. The index after the last element is out of bounds, too.
struct Digits {
  float of[10];
};
kernel void last_member(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  Digits digits;
  for (uint k = 0; k < 10; ++k) digits.of[k] = float(k);
  out[i] = digits.of[i];  // fault: last_member
}
kernel void array_element(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  array<float, 10> digits;
  for (uint k = 0; k < 10; ++k) digits[k] = float(k);
  out[i] = digits[min(i, 10u)];  // fault: array_element
}
kernel void component(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  const float3 v(1, 2, 3);
  out[i] = v[min(i, 3u)];  // fault: component
}
kernel void column(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  const float2x3 m(1);
  out[i] = m[min(i, 2u)].x;  // fault: column
}

constant float kTable[] = {1.0f, 2.0f, 4.0f, 8.0f};
kernel void constant_array(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = kTable[i];  // fault: constant_array
}

struct Table {
  device float* out;
  device const float* in;
};
kernel void through_a_table(constant Table& table [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  table.out[i] = table.in[i];  // fault: through_a_table
}

// Correct: accesses are guarded. The address one past the end is only compared, never dereferenced.
kernel void correct_bounds(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                         constant uint& n [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  if (i >= n) return;
  device const float* end = in + n;
  float x = in[i];
  if (in + i + 1 < end) x += in[i + 1];
  if (i > 0) x += (in + i)[-1];
  float digits[4] = {x, x, x, x};
  out[i] = digits[i % 4] + kTable[i % 4];
}

template <class V, class T>
static void set_at(device T* out, uint at) {
  *(device V*)(out + at) = V(1);  // fault: misaligned
}
kernel void misaligned_float4(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  set_at<float4>(out, 4 * i + (i == 5 ? 2 : 0));
}
kernel void misaligned_ulong(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  set_at<ulong>(out, 4 * i + (i == 5 ? 1 : 0));
}
kernel void misaligned_float(device uchar* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  set_at<float>(out, 16 * i + (i == 5 ? 2 : 0));
}
kernel void misaligned_half(device uchar* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  set_at<half>(out, 16 * i + (i == 5 ? 1 : 0));
}
kernel void misaligned_in_threadgroup(device float* out [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
  threadgroup float s[128];
  s[i] = s[i + 64] = float(i);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = float(*(threadgroup ulong*)(s + (i == 5 ? 1 : 2)));  // fault: misaligned_in_threadgroup
}
kernel void packed_vectors(device packed_float4* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  device packed_float4& v = *(device packed_float4*)((device float*)(out + i) + 1);
  v = packed_float4(float4(v) + float4(1, 2, 3, 4));
}
