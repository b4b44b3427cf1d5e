// Plans loops over strided operands, for elementwise operators, copies, concatenation, reductions, gathers and
// scatters. Dimensions are stored innermost first, and coalesced if the strides of every operand allow it. A kernel
// loops over a few dimensions. There is a separate launch for each index of the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>

namespace mpsx::ops {

template <size_t N>
struct Strided {
  using Offsets = std::array<int64_t, N>;
  // Maximum number of elements along x in one launch. Coalescing stops below 2^31, so that kernels can count in 32
  // bits.
  static constexpr int64_t kMaxRow = int64_t(1) << 30, kMaxCoalesced = int64_t(1) << 31;

  at::DimVector sizes;                   // innermost first; empty for a single element
  std::array<at::DimVector, N> strides;  // in elements

  Strided() = default;
  // Sizes and strides are given in tensor order, outermost first.
  Strided(at::IntArrayRef size, const std::array<at::IntArrayRef, N>& stride) {
    for (size_t d = size.size(); d-- > 0;) push(size[d], at(stride, d));
  }
  // Orders the dimensions by the strides of operand 0, for loops that may run in any order. Dimensions along which
  // operand 0 is broadcast come outermost.
  static Strided ordered(at::IntArrayRef size, const std::array<at::IntArrayRef, N>& stride) {
    at::DimVector order;
    for (size_t d = 0; d < size.size(); ++d) order.push_back(int64_t(d));
    const auto step = [&](int64_t d) { return stride[0][size_t(d)] ? stride[0][size_t(d)] : INT64_MAX; };
    std::stable_sort(order.rbegin(), order.rend(), [&](int64_t a, int64_t b) { return step(a) < step(b); });
    Strided result;
    for (size_t k = order.size(); k-- > 0;) result.push(size[size_t(order[k])], at(stride, size_t(order[k])));
    return result;
  }

  // Adds an outermost dimension.
  void push(int64_t size, const Offsets& stride) {
    if (size == 1) return;
    bool joins = !sizes.empty() && sizes.back() * size < kMaxCoalesced;
    for (size_t k = 0; k < N && joins; ++k) joins = stride[k] == strides[k].back() * sizes.back();
    if (joins) {
      sizes.back() *= size;
      return;
    }
    sizes.push_back(size);
    for (size_t k = 0; k < N; ++k) strides[k].push_back(stride[k]);
  }

  size_t rank() const { return sizes.size(); }
  int64_t size(size_t d) const { return d < rank() ? sizes[d] : 1; }
  // Returns the stride of operand k along the innermost dimension, or 1 if there is only one element.
  int64_t inner(size_t k) const { return rank() ? strides[k][0] : 1; }

  // Writes the innermost `count` dimensions to the four-element arrays of a parameter struct.
  template <typename Params>
  void write(Params& to, size_t count) const {
    for (size_t d = 0; d < 4; ++d) {
      const bool used = d < count && d < rank();
      TORCH_CHECK(!used || d == 0 || sizes[d] <= int64_t(UINT32_MAX), "a dimension of ", sizes[d],
                  " exceeds the limit of 2^32-1");
      to.size[d] = used ? uint32_t(std::min(sizes[d], kMaxRow)) : 1;
      for (size_t k = 0; k < N; ++k) to.stride[k][d] = used ? strides[k][d] : 0;
    }
  }

  // Calls body(offsets) for every launch, where offsets has one element offset per operand. Writes the innermost
  // `count` dimensions to `to`.
  template <typename Params, typename Body>
  void each(Params& to, size_t count, const Body& body) const {
    write(to, count);
    int64_t beyond = 1;
    for (size_t d = count; d < rank(); ++d) beyond *= sizes[d];
    for (int64_t i = 0; i < beyond; ++i) {
      Offsets offsets{};
      int64_t rest = i;
      for (size_t d = count; d < rank(); ++d) {
        for (size_t k = 0; k < N; ++k) offsets[k] += rest % sizes[d] * strides[k][d];
        rest /= sizes[d];
      }
      for (int64_t begin = 0; begin < size(0); begin += kMaxRow) {
        to.size[0] = uint32_t(std::min(kMaxRow, size(0) - begin));
        body(std::as_const(offsets));
        for (size_t k = 0; k < N && rank(); ++k) offsets[k] += kMaxRow * strides[k][0];
      }
    }
  }

 private:
  static Offsets at(const std::array<at::IntArrayRef, N>& stride, size_t d) {
    Offsets result;
    for (size_t k = 0; k < N; ++k) result[k] = stride[k][d];
    return result;
  }
};

inline char* at_element(const at::Tensor& t, int64_t offset) {
  return static_cast<char*>(t.data_ptr()) + offset * t.element_size();
}
inline const char* at_const_element(const at::Tensor& t, int64_t offset) {
  return static_cast<const char*>(t.const_data_ptr()) + offset * t.element_size();
}

}  // namespace mpsx::ops
