// prod and cumprod of complex numbers.
#include "elementwise/complex.h"
#include "elementwise/complex_params.h"
#include "elementwise/elements.h"
#include "lib/instantiate.h"

constexpr constant uint kLines = MPSX_VECTOR_BYTES ? 1 : kProductLines, kFewLines = 4, kLanes = 16;

// Running products, their parts apart from each other.
struct Products {
  float real[kLines], imaginary[kLines];
  void start() {
    for (uint j = 0; j < kLines; ++j) {
      real[j] = 1.0f;
      imaginary[j] = 0.0f;
    }
  }
};
inline float2 multiply_by(thread Products& s, uint j, float2 z) {
  const float2 product = complex_product(float2(s.real[j], s.imaginary[j]), z);
  s.real[j] = product.x;
  s.imaginary[j] = product.y;
  return product;
}

// gid = (block of neighbouring lines, plane). RUNNING: every product on the way is written.
template <bool RUNNING>
kernel void complex_products(device float2* out [[buffer(0)]], device const float2* x [[buffer(1)]],
                             constant ComplexProductParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  const uint first = gid.x * kLines, n = min(kLines, p.lines - first), size = p.size, pitch = p.pitch;
  const ulong at = gid.y * p.plane + ulong(first) * pitch;
  device const float2* from = x + at;
  device float2* to = out + (RUNNING ? at : ulong(gid.y) * p.lines + first);
  Products s;
  if (!RUNNING && p.step == 1 && size >= kLongProduct) {
    for (uint line = 0; line < n; ++line) {
      device const float2* row = from + ulong(line) * pitch;
      s.start();
      uint k = 0;
      for (; k + kLines <= size; k += kLines) {
        MPSX_VECTORIZE
        for (uint j = 0; j < kLines; ++j) multiply_by(s, j, element(row, k + j));
      }
      for (; k < size; ++k) multiply_by(s, 0, row[k]);
      for (uint j = 1; j < kLines; ++j) multiply_by(s, 0, float2(s.real[j], s.imaginary[j]));
      to[line] = float2(s.real[0], s.imaginary[0]);
    }
    return;
  }
  if (RUNNING && p.step == 1 && (n < kFewLines || size < kLanes)) {  // short lines overlap in time, and few are no vector
    for (uint line = 0; line < n; ++line) {
      const ulong row = ulong(line) * pitch;
      float2 product = from[row];
      to[row] = product;
      for (uint k = 1; k < size; ++k) to[row + k] = product = complex_product(product, from[row + k]);
    }
    return;
  }
  s.start();
  for (uint k = 0; k < size; ++k) {
    const ulong offset = ulong(k) * p.step;
    if (pitch == 1) {
      MPSX_VECTORIZE
      for (uint j = 0; j < n; ++j) {
        const float2 product = multiply_by(s, j, element(from + offset, j));
        if (RUNNING) set_element(to + offset, j, product);
      }
    } else {
      MPSX_VECTORIZE
      for (uint j = 0; j < n; ++j) {
        const float2 product = multiply_by(s, j, element(from + offset, ulong(j) * pitch));
        if (RUNNING) set_element(to + offset, ulong(j) * pitch, product);
      }
    }
  }
  if (RUNNING) return;
  for (uint j = 0; j < n; ++j) to[j] = float2(s.real[j], s.imaginary[j]);
}
MPSX_KERNEL("complex_prod", complex_products<false>)
MPSX_KERNEL("complex_cumprod", complex_products<true>)
