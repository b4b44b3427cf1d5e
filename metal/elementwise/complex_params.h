// Parameters of complex_products.metal, for both sides.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

// Products of `size` numbers, `inner` elements from one to the next.
struct ComplexProductParams {
  uint32_t size;
  uint32_t inner;
};

enum : uint32_t { kProductLines = 16 };  // neighbouring lines that a CPU's thread multiplies, a GPU's has one
