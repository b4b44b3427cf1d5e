// Correct kernels that look wrong. The driver must not report any errors.
#include <metal_stdlib>
using namespace metal;

// One SIMD group keeps using threadgroup memory and barriers after the other SIMD group has returned.
kernel void one_simdgroup_alone(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                                uint lane [[thread_index_in_simdgroup]],
                                uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float s[32];
  out[tid] = 0.0f;
  if (simd == 1) return;
  for (uint i = 0; i < 3; ++i) {
    s[lane] = float(lane + i);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    out[tid] += s[31 - lane];
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// Some threads return early. The remaining threads run loops of different lengths that contain no barriers.
kernel void leave_early(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  s[tid] = float(tid);
  out[tid] = -1.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid % 3 == 1) return;
  float sum = 0.0f;
  for (uint i = 0; i < tid; ++i) sum += s[i];
  out[tid] = sum;
}

// Double buffering needs only one barrier per step.
kernel void two_tiles(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float tiles[2][64];
  float sum = 0.0f;
  tiles[0][tid] = float(tid);
  for (uint k = 0; k < 5; ++k) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum += tiles[k % 2][63 - tid];
    tiles[(k + 1) % 2][tid] = float(tid + k + 1);
  }
  out[tid] = sum;
}

static float total_of(threadgroup float* s, uint tid, float x) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  s[tid] = x;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint half_way = 32; half_way > 0; half_way /= 2) {
    if (tid < half_way) s[tid] += s[tid + half_way];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  return s[0];
}
// Barriers in a function that is called from several places, and in branches that all threads of the group take.
kernel void barriers_of_a_function(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                                   uint group [[threadgroup_position_in_grid]]) {
  threadgroup float s[64];
  float sum = total_of(s, tid, 1.0f);
  if (group % 2 == 0)
    sum += total_of(s, tid, float(tid));
  else
    sum -= total_of(s, tid, 2.0f);
  for (uint k = 0; k < group + 1; ++k) sum += total_of(s, tid, float(k));
  out[group * 64 + tid] = sum;
}

// All threads execute the code that reads the value, but only the thread that wrote it performs the read.
kernel void read_by_one(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float total;
  threadgroup float s[64];
  if (tid < 10) s[tid] = float(tid);
  if (tid == 3) total = 5.0f;
  const float mine = tid == 3 ? total : 1.0f;
  const float own = tid < 10 ? s[tid] : 0.0f;
  out[tid] = mine + own;
}

// Votes, ballots and prefix sums in branches cover only the active lanes.
kernel void votes_in_branches(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                              uint lane [[thread_index_in_simdgroup]]) {
  float x = 0.0f;
  if (lane % 4 == 0) {
    x = float(popcount(uint(ulong(simd_vote::vote_t(simd_ballot(lane < 16))))));
    if (lane < 8) x += float(simd_prefix_inclusive_sum(1u)) + (simd_all(lane < 8) ? 100.0f : 0.0f);
  } else if (lane > 28) {
    x = simd_broadcast_first(float(lane)) + (simd_any(lane == 31) ? 1.0f : 0.0f);
  }
  out[tid] = x;
}

// The last SIMD group is partial. Lanes read from lanes past its end, but do not use these values.
kernel void partial_simdgroup(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                              uint lane [[thread_index_in_simdgroup]], uint n [[threads_per_threadgroup]]) {
  float x = float(tid);
  for (uint distance = 16; distance > 0; distance /= 2) {
    const float other = simd_shuffle_down(x, ushort(distance));
    if (tid + distance < n && lane + distance < 32) x += other;
  }
  out[tid] = simd_sum(1.0f) + (lane == 0 ? x : 0.0f);
}

// Different threads write the fields of a struct and the bytes of a word. Later, the memory is reused for other types.
struct Pair {
  half key;
  uchar low, high;
};
kernel void shared_words(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup Pair pairs[32];
  if (tid % 2 == 0)
    pairs[tid / 2].key = half(tid);
  else
    pairs[tid / 2].low = uchar(tid);
  pairs[tid / 2].high = 7;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const Pair p = pairs[31 - tid / 2];
  float x = float(p.key) + float(p.low) + float(p.high);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  threadgroup float4* fours = reinterpret_cast<threadgroup float4*>(&pairs[0]);
  if (tid < 8) fours[tid] = float4(float(tid));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = x + reinterpret_cast<threadgroup float*>(&pairs[0])[tid / 2];
}

// All threads read from memory whether to leave the loop. A barrier separates this read from the next write.
kernel void until_all_are_done(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup atomic_uint busy;
  float x = float(tid);
  uint rounds = 0;
  while (true) {
    if (tid == 0) atomic_store_explicit(&busy, 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (x > 1.0f) {
      x *= 0.5f;
      atomic_fetch_or_explicit(&busy, 1u, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint again = atomic_load_explicit(&busy, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (again == 0) break;
    ++rounds;
  }
  out[tid] = float(rounds);
}

// The usual reduction: each SIMD group computes a partial sum, and the first SIMD group adds the partial sums. The
// memory is then reused.
kernel void sum_by_simdgroups(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                              uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                              uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  float x = float(tid);
  for (uint k = 0; k < 2; ++k) {
    const float sum = simd_sum(x);
    if (lane == 0) partial[simd] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simd == 0) {
      const float total = simd_sum(lane < simds ? partial[lane] : 0.0f);
      if (lane == 0) partial[0] = total;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x = partial[0];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  out[tid] = x;
}

// An atomic counter assigns a slot to each thread.
kernel void slots_from_a_counter(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup atomic_uint next;
  threadgroup uint list[64];
  if (tid == 0) atomic_store_explicit(&next, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid % 2 == 0) list[atomic_fetch_add_explicit(&next, 1u, memory_order_relaxed)] = tid;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint count = atomic_load_explicit(&next, memory_order_relaxed);
  uint sum = 0;
  for (uint i = 0; i < count; ++i) sum += list[i];
  out[tid] = float(sum);
}

static void meet_with(threadgroup float* s, uint tid, float x) {
  s[tid] = x;
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
kernel void function_from_branches_of_simdgroups(device float* out [[buffer(0)]],
                                                 uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  if (tid < 32)
    meet_with(s, tid, 1.0f);
  else
    meet_with(s, tid, 2.0f);
  out[tid] = s[63 - tid];
}
