// Interpolation, padding and average pooling, with their backward passes. Each output element is a weighted sum of a
// few input elements along each dimension. The taps of a dimension are computed once.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "ops/op.h"

namespace mpsx::ops {

// The taps along a dimension: for every output element, the indices and weights of the input elements that it reads.
class Taps {
 public:
  explicit Taps(int64_t in) : in_(in), starts_{0} {}

  void add(int64_t index, double weight) {
    indices_.push_back(int32_t(index));
    weights_.push_back(float(weight));
  }
  void end_element() { starts_.push_back(int32_t(indices_.size())); }

  int64_t in() const { return in_; }
  int64_t out() const { return int64_t(starts_.size()) - 1; }
  const std::vector<int32_t>& starts() const { return starts_; }
  const std::vector<int32_t>& indices() const { return indices_; }
  const std::vector<float>& weights() const { return weights_; }

  // Returns the number of taps per element, or 0 if it is not the same for all elements.
  int64_t each() const;
  // Returns whether every output element is equal to the input element at the same index.
  bool identity() const;
  // Rounds the weights like PyTorch's CPU kernels for uint8 (ATen/native/cpu/UpSampleKernel.cpp): to multiples of 2^-n,
  // where n is chosen so that the largest weight fits in 15 bits.
  void round_for_bytes();
  // Returns the taps of the backward pass. For every input element, they are the output elements that read it, in
  // order.
  Taps transposed() const;

 private:
  int64_t in_;
  std::vector<int32_t> starts_, indices_;
  std::vector<float> weights_;
};

struct Resampling {
  int64_t dim;
  Taps taps;
  // Uses the transposed taps if `backward` is true.
  Resampling(int64_t d, Taps t, bool backward) : dim(d), taps(backward ? t.transposed() : std::move(t)) {}
};

inline bool has_resample_kernel(const Tensor& t) { return is_plain(t) && is_float_tag(tag_of(t)); }

// Writes to `out`. It must have the dtype of `in` (possibly uint8) and be dense in its suggested memory format.
void resample(const Tensor& in, std::vector<Resampling> steps, const Tensor& out);

}  // namespace mpsx::ops
