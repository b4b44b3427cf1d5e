// Every header of torch/include/c10/metal.
#include <c10/metal/atomic.h>
#include <c10/metal/common.h>
#include <c10/metal/error.h>
#include <c10/metal/expm1f.h>
#include <c10/metal/igamma.h>
#include <c10/metal/indexing.h>
#include <c10/metal/random.h>
#include <c10/metal/reduction_utils.h>
#include <c10/metal/special_math.h>
#include <c10/metal/utils.h>
#include <metal_stdlib>
using namespace metal;
using namespace c10::metal;

kernel void digammas(device float* out [[buffer(0)]], constant float* x [[buffer(1)]],
                     uint i [[thread_position_in_grid]]) {
  out[i] = digamma(x[i]) + float(philox4::rand(7, long(i)).x);
}
kernel void sums(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                 uint i [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup float scratch[simdgroup_size];
  const float total = threadgroup_sum(scratch, x[i], i, n);
  if (i == 0) out[0] = total;
}
kernel void adds(device AtomicType_t<half>* out [[buffer(0)]], device const half* x [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  AtomicType<half>::atomic_add(out, 0, x[i]);
}
