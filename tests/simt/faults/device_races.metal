// Races in device memory. Errors must name a line marked "fault:".
#include <metal_stdlib>
using namespace metal;

// Metal does not define this macro. mpsx's drivers do.
#ifndef MPSX_ALLOW_RACES
#define MPSX_ALLOW_RACES(p)
#endif

kernel void sum_into_one_element(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                                 uint i [[thread_position_in_grid]]) {
  out[0] += in[i];  // fault: sum_into_one_element
}

kernel void conflicting_stores(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                               uint i [[thread_position_in_grid]]) {
  out[i / 2] = in[i];  // fault: conflicting_stores
}

kernel void neighbor_in_place(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]],
                              uint n [[threads_per_grid]]) {
  const float next = x[(i + 1) % n];  // fault: neighbor_in_place
  x[i] += next + 1;                   // fault: neighbor_in_place
}

// The last thread to read an element may be the one that writes it. The message names another one.
kernel void read_by_all(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]],
                        uint n [[threads_per_grid]]) {
  float sum = 0;
  for (uint k = 0; k < n; ++k) sum += x[k];  // fault: read_by_all
  x[i] = sum + 1;                            // fault: read_by_all
}

kernel void device_histogram(device uint* bins [[buffer(0)]], device const float* in [[buffer(1)]],
                             uint i [[thread_position_in_grid]]) {
  bins[uint(in[i]) % 4] += 1;  // fault: device_histogram
}

kernel void flags_of_bytes(device uchar* flags [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  flags[i / 3] = uchar(i);  // fault: flags_of_bytes
}

// Different threads write parts of the same word, which another thread reads as a whole.
kernel void words_of_bytes(device uchar* bytes [[buffer(0)]], device uint* out [[buffer(1)]],
                           uint i [[thread_position_in_grid]]) {
  bytes[i] = uchar(i + 1);                                           // fault: words_of_bytes
  out[i] = reinterpret_cast<device const uint*>(bytes)[i / 4];       // fault: words_of_bytes
}

kernel void overlapping_vectors(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  *reinterpret_cast<device float2*>(x + i / 2 * 2) = float2(i);  // fault: overlapping_vectors
}

// Threads exchange values within their threadgroup.
kernel void exchange_without_barrier(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = float(i);          // fault: exchange_without_barrier
  x[i] += 2 * x[i ^ 1];     // fault: exchange_without_barrier
}

kernel void exchange_with_the_wrong_barrier(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = float(i);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float other = x[i ^ 1];  // fault: exchange_with_the_wrong_barrier
  threadgroup_barrier(mem_flags::mem_device);
  x[i] += other;
}

kernel void exchange_between_simdgroups(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = float(i);  // fault: exchange_between_simdgroups
  simdgroup_barrier(mem_flags::mem_device);
  const float other = x[i ^ 32];  // fault: exchange_between_simdgroups
  threadgroup_barrier(mem_flags::mem_device);
  x[i] += other;
}

kernel void exchange_between_groups(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]],
                                    uint n [[threads_per_grid]]) {
  x[i] = float(i);  // fault: exchange_between_groups
  threadgroup_barrier(mem_flags::mem_device);
  const float other = x[n - 1 - i];  // fault: exchange_between_groups
  threadgroup_barrier(mem_flags::mem_device);
  x[i] += other;  // fault: exchange_between_groups
}

kernel void plain_read_of_an_atomic(device atomic_uint* count [[buffer(0)]], device float* out [[buffer(1)]],
                                    uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);       // fault: plain_read_of_an_atomic
  out[i] = float(*reinterpret_cast<device const uint*>(count));     // fault: plain_read_of_an_atomic
}

struct Buffers {
  device float* out;
  device const float* in;
};
kernel void race_through_a_pointer(constant Buffers& buffers [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  buffers.out[i / 4] += buffers.in[i];  // fault: race_through_a_pointer
}

// The last threadgroup to arrive reads what all of them wrote.
kernel void last_group_without_fence(device uint* partial [[buffer(0)]], device atomic_uint* count [[buffer(1)]],
                                     device uint* out [[buffer(2)]], uint i [[thread_position_in_threadgroup]],
                                     uint group [[threadgroup_position_in_grid]],
                                     uint groups [[threadgroups_per_grid]]) {
  threadgroup bool last;
  if (i == 0) {
    partial[group] = group + 1;
    last = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed) == groups - 1;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (last && i < groups) out[i] = partial[i];  // fault: last_group_without_fence
}

// Correct.
kernel void last_group(device uint* partial [[buffer(0)]], device atomic_uint* count [[buffer(1)]],
                       device uint* out [[buffer(2)]], uint i [[thread_position_in_threadgroup]],
                       uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]]) {
  threadgroup bool last;
  if (i == 0) {
    partial[group] = group + 1;
    atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
    last = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed) == groups - 1;
    atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if (last && i < groups) out[i] = partial[i];
}

kernel void no_device_race(device float* x [[buffer(0)]], device atomic_uint* count [[buffer(1)]],
                           device uint* done [[buffer(2)]], device uchar* bytes [[buffer(3)]],
                           device half* any [[buffer(4)]], uint i [[thread_position_in_grid]]) {
  x[i] = float(i);
  threadgroup_barrier(mem_flags::mem_device);
  const float other = x[i ^ 33];
  threadgroup_barrier(mem_flags::mem_device);
  x[i] += other;
  simdgroup_barrier(mem_flags::mem_device);
  const float next = x[i ^ 1];
  simdgroup_barrier(mem_flags::mem_device);
  x[i] = next;
  atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
  done[0] = 1;  // every thread writes the same value
  bytes[i] = uchar(i);
  MPSX_ALLOW_RACES(any);
  any[i / 4] = half(i);
}

kernel void allowed_through_a_pointer(constant Buffers& buffers [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  MPSX_ALLOW_RACES(buffers.out);
  buffers.out[i / 4] = buffers.in[i];
}

kernel void many_barriers(device float* x [[buffer(0)]], constant uint& n [[buffer(1)]],
                          uint i [[thread_position_in_grid]]) {
  x[i] = float(i);
  for (uint k = 0; k < n; ++k) threadgroup_barrier(mem_flags::mem_device);
  const float other = x[i ^ 1];
  threadgroup_barrier(mem_flags::mem_device);
  x[i] = other;
}

// Each step applies one operation to an element of x for every thread. 255 means none.
enum Operation : uchar { kRead, kWrite, kAdd, kBarrier, kSimdBarrier, kOtherBarrier };
kernel void random_steps(device uint* x [[buffer(0)]], device uint* out [[buffer(1)]],
                         device const uchar* operations [[buffer(2)]], device const uchar* elements [[buffer(3)]],
                         constant uint& steps [[buffer(4)]], uint i [[thread_position_in_grid]],
                         uint n [[threads_per_grid]]) {
  uint sum = 0;
  for (uint s = 0; s < steps; ++s) {
    const uint e = elements[s * n + i];
    switch (operations[s]) {
      case kRead: if (e != 255) sum += x[e]; break;                     // fault: random_steps
      case kWrite: if (e != 255) x[e] = (s * n + i + 1) << 16; break;   // fault: random_steps
      case kAdd:
        if (e != 255)
          atomic_fetch_add_explicit(reinterpret_cast<device atomic_uint*>(x) + e, 1u,  // fault: random_steps
                                    memory_order_relaxed);
        break;
      case kBarrier: threadgroup_barrier(mem_flags::mem_device); break;
      case kSimdBarrier: simdgroup_barrier(mem_flags::mem_device); break;
      default: threadgroup_barrier(mem_flags::mem_threadgroup);
    }
  }
  out[i] = sum;
}
