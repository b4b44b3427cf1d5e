// Interpolation, padding and average pooling, and their backwards: along each dimension every element of the result is
// a sum of a few elements with weights. Which, and with what weights, is worked out here once for each dimension.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "ops/op.h"

namespace mpsx::ops {

// The taps of every element of a dimension of `out()` elements, of one of `in`.
class Taps {
 public:
  explicit Taps(int64_t in) : in_(in), starts_{0} {}

  void add(int64_t place, double weight) {
    places_.push_back(int32_t(place));
    weights_.push_back(float(weight));
  }
  void end_element() { starts_.push_back(int32_t(places_.size())); }

  int64_t in() const { return in_; }
  int64_t out() const { return int64_t(starts_.size()) - 1; }
  const std::vector<int32_t>& starts() const { return starts_; }
  const std::vector<int32_t>& places() const { return places_; }
  const std::vector<float>& weights() const { return weights_; }

  // How many taps each element has, if all have as many; else 0.
  int64_t each() const;
  // Whether every element is the one in its own place.
  bool identity() const;
  // With weights as PyTorch's CPU kernels have them for bytes (ATen/native/cpu/UpSampleKernel.cpp): multiples of the
  // power of two for which the largest takes 15 bits.
  void round_for_bytes();
  // The backward: what each element of the input is a tap of, in order.
  Taps transposed() const;

 private:
  int64_t in_;
  std::vector<int32_t> starts_, places_;
  std::vector<float> weights_;
};

struct Resampling {
  int64_t dim;
  Taps taps;
  // `backward`: by the transpose of the taps.
  Resampling(int64_t d, Taps t, bool backward) : dim(d), taps(backward ? t.transposed() : std::move(t)) {}
};

// Whether resample has kernels for the type.
inline bool resamples(const Tensor& t) { return is_plain(t) && is_float_tag(tag_of(t)); }

// Writes `out`, of the type of `in` (which may be uint8, too), dense in the memory format that it suggests.
void resample(const Tensor& in, std::vector<Resampling> steps, const Tensor& out);

}  // namespace mpsx::ops
