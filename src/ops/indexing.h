// Helpers that indexing operators share.
#pragma once

#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>

#include "index/params.h"
#include "ops/op.h"

namespace mpsx::ops {

// Returns the tag for kernels that only move elements. It depends on the element size: i8, i16, i32 or i64.
constexpr Tag bits_tag(int64_t bytes) {
  switch (bytes) {
    case 1: return Tag::i8;
    case 2: return Tag::i16;
    case 4: return Tag::i32;
    case 8: return Tag::i64;
    default: return Tag::none;
  }
}

inline Tag bits_tag(const Tensor& t) { return bits_tag(t.element_size()); }

inline bool is_bitwise_copyable(const Tensor& t) { return is_plain(t) && bits_tag(t) != Tag::none; }

// Converts an index to a contiguous int64 tensor, as the kernels expect.
inline Tensor dense_index(const Tensor& index) {
  return index.scalar_type() == at::kLong && index.is_contiguous() ? index : index.to(at::kLong).contiguous();
}

inline uint32_t grid_size(const char* op, int64_t n) {
  TORCH_CHECK(n <= int64_t(UINT32_MAX), op, ": ", n, " rows exceed the limit of 2^32-1");
  return uint32_t(n);
}

// A tensor viewed as (outer, size of `dim`, inner).
struct Blocks {
  int64_t outer = 1, size = 1, inner = 1;
  Blocks(at::IntArrayRef sizes, int64_t dim) {
    for (int64_t d = 0; d < int64_t(sizes.size()); ++d) (d < dim ? outer : d == dim ? size : inner) *= sizes[size_t(d)];
  }
};

// Throws if an element of a contiguous index is out of range. On asynchronous drivers, the error is thrown later. If
// `negative` is true, negative indices count from the end.
void check_index(const char* op, const Tensor& index, int64_t size, int64_t dimension, bool negative);

// Computes out[o][k][:] = in[o][index[k]][:]. `out` must be dense. The caller sets all fields of `p` except count and
// row. `checked` means that check_index has already checked the index.
void launch_index_rows(const char* op, const Tensor& out, const Tensor& in, const Tensor& index, int64_t outer,
                       int64_t row, RowsParams p, bool checked = false);

// Selects rows of `self` along `dim`. `out` must be contiguous and have the shape and dtype of the result.
void select_rows_into(const char* op, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index);

}  // namespace mpsx::ops
