// Dimensions of several operands merged where all of them allow it, for kernels over a few dimensions.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "elementwise/params.h"

namespace mpsx::ops {

template <size_t N>
struct Merged {
  at::DimVector sizes;  // innermost first; never empty
  std::array<at::DimVector, N> strides;

  // Sizes and strides as tensors have them, outermost first.
  Merged(at::IntArrayRef size, const std::array<at::IntArrayRef, N>& stride) {
    for (size_t d = size.size(); d-- > 0;) {
      if (size[d] == 1) continue;
      bool joins = !sizes.empty();
      for (size_t k = 0; k < N && joins; ++k) joins = stride[k][d] == strides[k].back() * sizes.back();
      if (joins) {
        sizes.back() *= size[d];
        continue;
      }
      sizes.push_back(size[d]);
      for (size_t k = 0; k < N; ++k) strides[k].push_back(stride[k][d]);
    }
    if (!sizes.empty()) return;
    sizes.push_back(1);
    for (auto& s : strides) s.push_back(0);
  }

  // Writes the innermost `rank` dimensions (the rest of `to` is 1), in the arrays of a parameter struct.
  template <typename Params>
  void write(Params& to, size_t rank) const {
    for (size_t d = 0; d < 4; ++d) {
      const bool used = d < rank && d < sizes.size();
      TORCH_CHECK(!used || sizes[d] <= int64_t(UINT32_MAX), "a dimension of ", sizes[d], " passes the limit of 2^32-1");
      to.size[d] = used ? uint32_t(sizes[d]) : 1;
      for (size_t k = 0; k < N; ++k) to.stride[k][d] = used ? strides[k][d] : 0;
    }
  }

  // Calls body(offsets in elements, one an operand) for every index of the dimensions beyond `rank`.
  template <typename Body>
  void each_beyond(size_t rank, const Body& body) const {
    int64_t count = 1;
    for (size_t d = rank; d < sizes.size(); ++d) count *= sizes[d];
    for (int64_t i = 0; i < count; ++i) {
      std::array<int64_t, N> offsets{};
      int64_t rest = i;
      for (size_t d = rank; d < sizes.size(); ++d) {
        for (size_t k = 0; k < N; ++k) offsets[k] += rest % sizes[d] * strides[k][d];
        rest /= sizes[d];
      }
      body(offsets);
    }
  }
};

// Operands as at::TensorIterator has them: sizes and strides in bytes, innermost first. Calls body(params, offsets in
// bytes) for every dispatch, each over four dimensions. An operand without strides is one element.
template <size_t N, typename Body>
void each_strided(at::IntArrayRef sizes, const std::array<at::IntArrayRef, N>& strides,
                  const std::array<int64_t, N>& elements, const Body& body) {
  StridedParams p{};
  static_assert(N <= std::extent_v<decltype(p.stride)>);
  for (size_t d = 0; d < 4; ++d) {
    p.size[d] = d < sizes.size() ? uint32_t(sizes[d]) : 1;
    for (size_t k = 0; k < N; ++k) p.stride[k][d] = d < strides[k].size() ? strides[k][d] / elements[k] : 0;
  }
  uint64_t count = 1;
  for (size_t d = 4; d < sizes.size(); ++d) count *= uint64_t(sizes[d]);
  for (uint64_t i = 0; i < count; ++i) {
    std::array<int64_t, N> offsets{};
    uint64_t rest = i;
    for (size_t d = 4; d < sizes.size(); ++d) {
      for (size_t k = 0; k < N; ++k)
        if (!strides[k].empty()) offsets[k] += int64_t(rest % uint64_t(sizes[d])) * strides[k][d];
      rest /= uint64_t(sizes[d]);
    }
    body(p, offsets);
  }
}

inline char* at_element(const Tensor& t, int64_t offset) {
  return static_cast<char*>(t.data_ptr()) + offset * t.element_size();
}
inline const char* at_const_element(const Tensor& t, int64_t offset) {
  return static_cast<const char*>(t.const_data_ptr()) + offset * t.element_size();
}

}  // namespace mpsx::ops
