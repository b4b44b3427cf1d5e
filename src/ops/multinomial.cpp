// multinomial: the largest of random numbers divided by exponential ones, or, with replacement, a search among the sums
// of the probabilities.
#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/searchsorted.h>
#include <torch/library.h>

#include "ops/op.h"

namespace mpsx::ops {
namespace {

using Generator = std::optional<at::Generator>;

// Draws for each row of positive weights, in float.
Tensor draw(const Tensor& weights, int64_t samples, bool replacement, const Generator& generator) {
  if (!replacement || samples == 1) {
    // The largest of weight / exponential number is each with its probability, and so is what is left after it.
    Tensor order = at::empty_like(weights).exponential_(1, generator);
    at::div_out(order, weights, order);
    return samples == 1 ? order.argmax(-1, true) : std::get<1>(order.topk(samples, -1));
  }
  const Tensor sums = weights.cumsum(-1);
  std::vector<int64_t> shape(weights.sizes().vec());
  shape.back() = samples;
  // Random numbers are below 1, and a sum that equals one is passed: what has no weight is never drawn.
  const Tensor wanted = at::empty(shape, weights.options()).uniform_(0, 1, generator).mul_(sums.slice(-1, -1));
  // Rounding may reach the whole sum, which the last element with a weight is the first to have.
  const Tensor last = at::searchsorted(sums, sums.slice(-1, -1).contiguous());
  return at::searchsorted(sums, wanted, false, true).minimum(last);
}

Tensor& multinomial_out(const Tensor& self, int64_t samples, bool replacement, Generator generator, Tensor& out) {
  if (!is_plain(self) || !is_float_tag(tag_of(self)) || !is_plain(out))
    return fallback_call<Tensor>("aten::multinomial", "out", self, samples, replacement, generator, out), out;
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || samples <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(self.size(-1) <= int64_t(1) << 24, "number of categories cannot exceed 2^24");
  std::vector<int64_t> shape(self.sizes().vec());
  shape.back() = samples;
  at::native::resize_output(out, shape);
  if (out.numel() == 0) return out;
  const Tensor weights = self.to(at::kFloat).contiguous();
  // All are on their way before the first is waited for. A NaN is both extrema, and in no order with a number.
  const auto [least, most] = at::aminmax(weights);
  const Tensor sum = weights.sum(-1), smallest = sum.dim() == 0 ? sum : sum.amin();
  TORCH_CHECK(least.item<float>() >= 0 && most.item<float>() < INFINITY,
              "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(smallest.item<float>() > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  return out.copy_(draw(weights, samples, replacement, generator));
}
Tensor multinomial(const Tensor& self, int64_t samples, bool replacement, Generator generator) {
  Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return multinomial_out(self, samples, replacement, std::move(generator), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("multinomial", &multinomial);
  m.impl("multinomial.out", &multinomial_out);
}

}  // namespace mpsx::ops
