// Kernels for torch.amp.GradScaler: unscale gradients, detect infinities and NaNs, and update the scale.
#include "lib/instantiate.h"
#include "lib/arithmetic.h"
#include "optim/lists.h"

// Buffer 28 holds 1 / scale. Buffer 29 is set to 1.0f if any element is infinite or NaN.
template <typename T>
kernel void amp_unscale(MPSX_LIST_BUFFERS, constant ListParams& p [[buffer(30)]], MPSX_LIST_POSITION) {
  const ListChunk chunk = list_chunk(p, group);
  device T* x = MPSX_LIST(T, 0);
  const float factor = *reinterpret_cast<device const float*>(b28);
  uint bad = 0;
  MPSX_REDUCE(| : bad)
  for (uint i = tid; i < chunk.count; i += tpt) {
    const float value = float(x[i]);
    bad |= uint(is_infinite(value) || is_nan(value));
    x[i] = T(factor == 1.0f ? value : value * factor);
  }
  // Several threads may store here, but they all store the same value.
  if (bad != 0u)
    atomic_store_explicit(reinterpret_cast<device atomic_uint*>(b29), as_type<uint>(1.0f), memory_order_relaxed);
}

kernel void amp_update_scale(device float* scale [[buffer(0)]], device int* growth_tracker [[buffer(1)]],
                             device const float* found_inf [[buffer(2)]], constant AmpParams& p [[buffer(3)]],
                             uint tid [[thread_position_in_grid]]) {
  if (tid != 0) return;
  if (found_inf[0] != 0.0f) {
    scale[0] *= p.backoff;
    growth_tracker[0] = 0;
    return;
  }
  const int successful = growth_tracker[0] + 1;
  const bool grows = long(successful) == p.interval;
  const float grown = scale[0] * p.growth;
  if (grows && !is_infinite(grown)) scale[0] = grown;
  growth_tracker[0] = grows ? 0 : successful;
}

#define MPSX_AMP(T, tag, ...) MPSX_KERNEL("amp_unscale_" #tag, amp_unscale<T>)
MPSX_FOR_FLOAT(MPSX_AMP)
