// repeat_interleave.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "ops/operator.h"

namespace mpsx::ops {
namespace {

// Repeats each index i repeats[i] times. Element k of the output is the number of runs that end at or before k.
bool repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size, Tensor& out) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (!has_number_kernel(repeats)) return false;
  if (repeats.size(0) == 0) return return_or_copy("repeat_interleave", at::empty({0}, repeats.options()), out);
  TORCH_CHECK(repeats.min().item<int64_t>() >= 0, "repeats can not be negative");
  const Tensor ends = repeats.cumsum(0, at::kLong);
  const int64_t total = ends[-1].item<int64_t>();
  TORCH_CHECK(!output_size || *output_size == total, "allocated size does not match required size");
  const Tensor ended = at::zeros({total + 1}, ends.options());
  ended.index_add_(0, ends, at::ones({1}, ends.options()).expand_as(ends));
  return return_or_copy("repeat_interleave", ended.cumsum(0).slice(0, 0, total).to(repeats.scalar_type()), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"repeat_interleave.Tensor", &repeat_interleave>(m);
}

}  // namespace mpsx::ops
