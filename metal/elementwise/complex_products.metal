// prod and cumprod of complex numbers.
#include "elementwise/complex.h"
#include "elementwise/complex_params.h"
#include "elementwise/elements.h"
#include "lib/instantiate.h"

constexpr constant uint kLines = MPSX_VECTOR_BYTES ? 1 : kProductLines;

inline void multiply_by(thread float* real, thread float* imaginary, float2 z) {
  const float2 product = complex_product(float2(*real, *imaginary), z);
  *real = product.x;
  *imaginary = product.y;
}

// gid = (block of neighbouring lines, line of blocks). RUNNING: every product on the way is written.
template <bool RUNNING>
kernel void complex_products(device float2* out [[buffer(0)]], device const float2* x [[buffer(1)]],
                             constant ComplexProductParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  const uint first = gid.x * kLines, n = min(kLines, p.inner - first), size = p.size, inner = p.inner;
  device const float2* from = x + (ulong(gid.y) * size * inner + first);
  device float2* to = out + (ulong(gid.y) * (RUNNING ? size : 1u) * inner + first);
  float real[kLines], imaginary[kLines];
  for (uint j = 0; j < kLines; ++j) {
    real[j] = 1.0f;
    imaginary[j] = 0.0f;
  }
  if (!RUNNING && inner == 1) {  // the line's elements are spread over the lanes
    uint k = 0;
    for (; k + kLines <= size; k += kLines) {
      MPSX_VECTORIZE
      for (uint j = 0; j < kLines; ++j) multiply_by(real + j, imaginary + j, element(from, k + j));
    }
    for (; k < size; ++k) multiply_by(real, imaginary, from[k]);
    for (uint j = 1; j < min(kLines, size); ++j) multiply_by(real, imaginary, float2(real[j], imaginary[j]));
    *to = float2(real[0], imaginary[0]);
    return;
  }
  for (uint k = 0; k < size; ++k) {
    device const float2* row = from + ulong(k) * inner;
    device float2* result = to + ulong(k) * inner;
    MPSX_VECTORIZE
    for (uint j = 0; j < n; ++j) {
      multiply_by(real + j, imaginary + j, element(row, j));
      if (RUNNING) set_element(result, j, float2(real[j], imaginary[j]));
    }
  }
  if (RUNNING) return;
  for (uint j = 0; j < n; ++j) to[j] = float2(real[j], imaginary[j]);
}
MPSX_KERNEL("complex_prod", complex_products<false>)
MPSX_KERNEL("complex_cumprod", complex_products<true>)
