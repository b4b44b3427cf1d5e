// Parameters of complex_products.metal, for both sides.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

// Products of `size` numbers each, for planes of `lines` lines: elements from a line to the next, from a number of a line
// to the next, and from a plane to the next.
struct ComplexProductParams {
  uint32_t size, lines, pitch, step;
  uint64_t plane;
};

enum : uint32_t {
  kProductLines = 16,  // neighbouring lines that a CPU's thread multiplies, a GPU's has one
  kLongProduct = 64,   // numbers of a line that the lanes of a vector share
};
