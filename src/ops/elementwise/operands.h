// What a launch of elementwise kernels needs of a TensorIterator, and which shapes are worth another way.
#pragma once

#include <algorithm>

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {

// Inputs possibly swapped; dimensions innermost first.
struct ElementwiseKernels::Operands {
  static constexpr int kMaxOperands = 4;
  static constexpr int64_t kWorthRepeating = 16;        // copies of a value, rather than computing it again
  static constexpr int64_t kVector = 64;                // bytes
  static constexpr uint64_t kWorthPacking = 512;        // elements in short rows,
  static constexpr uint64_t kWorthPackingCostly = 128;  // of an operator that takes long
  static constexpr int64_t kLongRow = 128;              // elements of a row that is not worth a copy
  static_assert(kLongRow > kVector);                    // rows of bytes too are then no short ones
  static constexpr uint64_t kWorthTurning = 256;        // elements of a transposed one, rather than large strides
  static constexpr uint64_t kFew = 8192;                // elements that are copied one by one rather than in tiles
  static constexpr int64_t kNarrow = 4;                 // the shorter side of what a CPU transposes in squares
  static constexpr int64_t kShortRow = 8;               // elements of a row that cost less than the row itself
  static constexpr int64_t kPanel = 1 << 17;  // elements of a copy that a core's cache still holds when it is read
  static constexpr int64_t kTile = kTransposeTile;
  static constexpr int64_t kBriefRow = 64;     // bytes of a row that is two moves
  static constexpr int64_t kWidestLine = 128;  // bytes of a row that is copied as an element

  int count;  // output included
  int ndim;
  char* data[kMaxOperands];
  int64_t size[64];
  int64_t stride[kMaxOperands][64];  // bytes
  int64_t element[kMaxOperands];     // bytes
  bool inlined[kMaxOperands] = {};
  uint64_t numel;

  Operands() = default;
  // Of most tensors, two of the 64 dimensions.
  Operands(const Operands& other) : count(other.count), ndim(other.ndim), numel(other.numel) {
    std::copy_n(other.size, std::max(ndim, 1), size);
    for (int k = 0; k < kMaxOperands; ++k) {
      data[k] = other.data[k];
      element[k] = other.element[k];
      inlined[k] = other.inlined[k];
      if (k < count) std::copy_n(other.stride[k], std::max(ndim, 1), stride[k]);
    }
  }
  Operands& operator=(const Operands&) = delete;

  bool dense(int k) const { return ndim == 0 || (ndim == 1 && (stride[k][0] == element[k] || size[0] == 1)); }
  bool all_dense() const {
    for (int k = 0; k < count; ++k)
      if (!inlined[k] && !dense(k)) return false;
    return true;
  }
  int64_t inner(int k) const { return ndim == 0 ? 1 : stride[k][0] / element[k]; }
  // Every input is the same along x, and the output is not.
  bool repeats() const {
    for (int k = 1; k < count; ++k)
      if (inner(k) != 0) return false;
    return inner(0) == 1 && size[0] >= kWorthRepeating;
  }
  // Contiguous along the second dimension, as a transposed operand is.
  bool turned(int k) const {
    if (ndim < 2) return false;
    const bool tiles = std::min(size[0], size[1]) >= kNarrow || numel <= kFew;
    return tiles && inner(k) > 1 && stride[k][1] == element[k];
  }
  // The output is dense along x, and so are the inputs but for some that are the same along it, or transposed.
  bool worth_spreading() const {
    bool repeated = false, dense_along = false, any_turned = false;
    for (int k = 1; k < count; ++k) {
      const int64_t step = inner(k);
      if (step != 0 && step != 1 && !turned(k)) return false;
      (step == 0 ? repeated : step == 1 ? dense_along : any_turned) = true;
    }
    if (inner(0) != 1) return false;
    return any_turned ? numel >= kWorthTurning : size[0] >= kWorthRepeating && repeated && dense_along;
  }
  // Elements that lie one after the other.
  int64_t packed(int k) const {
    int64_t run = 1;
    for (int d = 0; d < ndim && (stride[k][d] == run * element[k] || size[d] == 1); ++d) run *= size[d];
    return run;
  }
  // Rows that vectors are wider than: what is read is copied first, so that the loop is over all rows.
  bool short_rows(bool costly) const {
    const uint64_t worth = costly || element[0] == 2 ? kWorthPackingCostly : kWorthPacking;
    return ndim >= 2 && size[0] * element[0] <= kVector && numel >= worth && uint64_t(packed(0)) == numel;
  }
  // The dimension that is worth looping over in place of a short innermost one; 0 if there is none.
  int longer() const {
    if (ndim < 2 || size[0] >= kShortRow) return 0;
    for (int d = 1; d < std::min(ndim, 4); ++d)
      if (size[d] >= 2 * size[0] && size[d] >= kShortRow) return d;
    return 0;
  }
  void swap_dimensions(int a, int b) {
    std::swap(size[a], size[b]);
    for (int k = 0; k < count; ++k) std::swap(stride[k][a], stride[k][b]);
  }
  // Dimensions that follow each other in every operand become one, and those of one element are left out.
  void coalesce() {
    int last = 0;
    for (int d = 1; d < ndim; ++d) {
      if (size[d] == 1) continue;
      bool follows = size[last] != 1;
      for (int k = 0; k < count; ++k) follows = follows && stride[k][d] == stride[k][last] * size[last];
      if (follows) {
        size[last] *= size[d];
        continue;
      }
      if (size[last] != 1) ++last;
      size[last] = size[d];
      for (int k = 0; k < count; ++k) stride[k][last] = stride[k][d];
    }
    ndim = std::min(ndim, last + 1);
  }
  // Calls body for parts of at most kPanel elements.
  template <typename Body>
  void each_panel(const Body& body) const {
    if (numel <= uint64_t(kPanel)) return body(*this);
    int d = ndim - 1;
    while (d > 1 && size[d] == 1) --d;
    if (d == 1 && size[0] > kPanel / kTile) d = 0;
    const int64_t others = int64_t(numel) / size[d];
    const int64_t step =
        d < 2 ? std::max(kTile, kPanel / others / kTile * kTile) : std::max(int64_t(1), kPanel / others);
    for (int64_t begin = 0; begin < size[d]; begin += step) {
      Operands part = *this;
      part.size[d] = std::min(step, size[d] - begin);
      part.numel = uint64_t(others * part.size[d]);
      for (int k = 0; k < count; ++k) part.data[k] += begin * stride[k][d];
      part.each_panel(body);
    }
  }
  // Kernels read the inlined operand's memory too, and take no notice: the other one of its type, so that a loop over x
  // is the same whether one is inlined or not.
  void point_inlined() {
    for (int k = 1; k < count; ++k) {
      if (!inlined[k]) continue;
      const int other = count > 2 ? 2 * count - 3 - k : 0;
      data[k] = data[other];
      element[k] = element[other];
      for (int d = 0; d < ndim; ++d) stride[k][d] = other ? stride[other][d] : 0;
    }
  }
  void swap_inputs() {
    std::swap(data[1], data[2]);
    std::swap(stride[1], stride[2]);
    std::swap(element[1], element[2]);
    std::swap(inlined[1], inlined[2]);
  }
  // Short rows of a copy, or parts of them, as elements that are wide: of how many bytes, 0 where rows are long or fit
  // none: strides count whole elements, which lie at multiples of up to 16 bytes.
  int64_t wide_element(int64_t widest, bool in_parts) const {
    constexpr int64_t kNarrowestPart = 16;  // bytes; whole rows may be narrower
    const int64_t row = size[0] * element[0];
    if (ndim < 2 || inner(0) != 1 || inner(1) != 1 || row > kWidestLine) return 0;
    for (int64_t bytes = widest; bytes > element[0]; bytes /= 2)
      if ((row == bytes || (in_parts && row % bytes == 0 && bytes >= kNarrowestPart)) && fits(0, bytes) &&
          fits(1, bytes))
        return bytes;
    return 0;
  }
  // True: a row is one element, and its dimension gone.
  bool widen(int64_t bytes) {
    size[0] = size[0] * element[0] / bytes;
    numel = numel * uint64_t(element[0]) / uint64_t(bytes);
    for (int k = 0; k < 2; ++k) element[k] = stride[k][0] = bytes;
    if (size[0] > 1) return false;
    drop_rows();
    return true;
  }
  // Rows of a copy that are few bytes, of elements that follow each other or are one, and that no wide element fits.
  bool brief_rows() const {
    return ndim >= 2 && inner(0) == 1 && (inner(1) == 1 || inner(1) == 0) && size[0] > 1 &&
           size[0] * element[0] <= kBriefRow;
  }
  // Without the innermost dimension.
  void drop_rows() {
    --ndim;
    for (int d = 0; d < ndim; ++d) size[d] = size[d + 1];
    for (int k = 0; k < count; ++k)
      for (int d = 0; d < ndim; ++d) stride[k][d] = stride[k][d + 1];
  }

 private:
  bool fits(int k, int64_t bytes) const {
    const uintptr_t alignment = uintptr_t(std::min(bytes, int64_t(16)));
    return reinterpret_cast<uintptr_t>(data[k]) % alignment == 0 &&
           std::all_of(stride[k] + 1, stride[k] + ndim, [&](int64_t s) { return s % bytes == 0; });
  }
};

}  // namespace mpsx::ops
