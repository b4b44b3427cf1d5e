// Products of 16 rows of a matrix with up to eight vectors, by one SIMD group. Each call adds the products of 16
// columns. On NVIDIA GPUs, this takes one mma.sync instruction, whose left operand contains the rows
// (MPSX_VECTOR_PRODUCTS is then in metal_stdlib/cuda/tensor/multiply_vectors.h).
//
//   typedef MPSX_VECTOR_PRODUCTS Products;
//   float sums[Products::kSums] = {};
//   Products::multiply(sums, rows, x);    // all lanes call it
//
// The lanes hold fragments, as in tensor_fragments.h. Lane l holds the four columns from fragment_column(l) on: of rows
// fragment_row(l) and fragment_row(l) + 8, and of vector fragment_row(l). The columns may be in any order that is the
// same for rows and vectors.
//
// Sum i of lane l belongs to row row(l, i) and vector vector(l, i). If there is no such vector, it is zero.
#pragma once

#include "lib/tensor_fragments.h"

enum : uint { kVectors = 8 };

struct FragmentVectors {
  enum : uint { kSums = 8 };
  static METAL_FUNC uint row(uint lane, uint i) { return fragment_row(lane) + i / 4 * 8; }
  static METAL_FUNC uint vector(uint lane, uint i) { return fragment_column(lane) + i % 4; }

  template <typename T>
  static METAL_FUNC void multiply(thread float (&sums)[kSums], thread const vec<T, 4> (&rows)[2], vec<T, 4> x) {
    const Fragment8x16<T> a[2] = {{rows[0]}, {rows[1]}}, none = {vec<T, 4>(T(0.0f))};
    const Fragment8x16<T> b[4] = {{x}, none, none, none};
    Fragment8x16<float> block[4];
    for (uint i = 0; i < 4; ++i) clear_fragment(block[i]);
    for (uint i = 0; i < kSums; ++i) block[i / 4].elements[i % 4] = sums[i];
    multiply_fragments<true>(block[0], block[1], block[2], block[3], a, b);
    for (uint i = 0; i < kSums; ++i) sums[i] = block[i / 4].elements[i % 4];
  }
  static METAL_FUNC uint masked_or(uint word, uint mask, uint bits) { return (word & mask) | bits; }
};
#ifndef MPSX_VECTOR_PRODUCTS
#  define MPSX_VECTOR_PRODUCTS FragmentVectors
#endif
