// bincount and histc. The kernels are in metal/index/bincount.metal.
#include <ATen/ops/aminmax.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "index/params.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using at::Scalar;

// Launches a kernel that counts the elements of `x` in each bin. `x` must have fewer than 2^32 elements.
Tensor count_bins(const KernelSet& kernels, Tag tag, const Tensor& x, const HistogramParams& p) {
  const Tensor bins = at::zeros({int64_t(p.bins)}, x.options().dtype(at::kInt));
  Launch(kernels.get(tag))
      .outputs(bins)
      .inputs(x)
      .bytes(p)
      .groups({uint32_t(ceil_div(p.count, kHistogramChunk))})
      .work(kHistogramChunk)
      .run();
  return bins;
}

// Counts how often each nonnegative integer occurs, or sums the weights of its occurrences.
std::optional<Tensor> bincount(const Tensor& self, const std::optional<Tensor>& weights, int64_t minlength) {
  static const KernelSet kernels("bincount");
  const bool weighted = weights && weights->defined() && weights->numel() > 0;
  const bool whole = at::isIntegralType(self.scalar_type(), false);
  if (!is_plain(self) || !whole || (weighted && !(is_plain(*weights) && weights->scalar_type() == at::kFloat)))
    return std::nullopt;
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  const auto longs = self.options().dtype(at::kLong);
  if (self.dim() == 1 && self.numel() == 0) return at::zeros({minlength}, longs);
  constexpr const char* kExpected = "bincount only supports 1-d non-negative integral inputs.";
  TORCH_CHECK(self.dim() == 1, kExpected);
  const auto [smallest, largest] = self.aminmax();
  TORCH_CHECK(smallest.item<int64_t>() >= 0, kExpected);
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const int64_t bins = std::max(largest.item<int64_t>() + 1, minlength);
  if (!weighted && self.size(0) <= int64_t(INT32_MAX) && bins <= int64_t(INT32_MAX)) {
    const HistogramParams p{uint32_t(self.numel()), uint32_t(bins), 0, 0};
    return count_bins(kernels, Tag::none, self.to(at::kLong).contiguous(), p).to(at::kLong);
  }
  const Tensor each = weighted ? *weights : at::ones({1}, longs).expand({self.size(0)});
  return at::zeros({bins}, each.options()).scatter_add_(0, self.to(at::kLong), each);
}

// Counts integers in `bins` equal parts of [low, high] without rounding errors, like CUDA. PyTorch's CPU kernel does
// not support integers.
Tensor integer_histc(const Tensor& self, int64_t bins, int64_t low, int64_t high) {
  static const KernelSet kernels("bincount");
  const Tensor x = self.to(at::kLong).contiguous();
  const Tensor part = x.sub(low).mul_(bins).floor_divide_(high - low).clamp_max_(bins - 1);
  part.masked_fill_(x.lt(low).logical_or_(x.gt(high)), bins);  // the kernel ignores bin number `bins`
  return count_bins(kernels, Tag::none, part, {uint32_t(self.numel()), uint32_t(bins), 0, 0});
}

// Counts the elements in each of `bins` equal parts of [low, high]. Ignores elements outside this range.
bool histc(const Tensor& self, int64_t bins, const Scalar& low, const Scalar& high, Tensor& out) {
  static const KernelSet kernels("histc");
  const bool whole = is_plain(self) && at::isIntegralType(self.scalar_type(), false);
  if (!(whole || has_float_kernel(self)) || !accepts(out, self.scalar_type())) return false;
  TORCH_CHECK(bins > 0, "histc: expected bins > 0, got ", bins);
  double first = low.toDouble(), last = high.toDouble();
  if (whole) first = std::trunc(first), last = std::trunc(last);
  if (first == last && self.numel() > 0) {
    const auto [smallest, largest] = self.aminmax();
    first = smallest.item<double>();
    last = largest.item<double>();
  }
  if (first == last) first -= 1, last += 1;
  TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "histc: range of [", first, ", ", last, "] is not finite");
  TORCH_CHECK(first < last, "histc: max must be larger than min, got ", last, " and ", first);
  TORCH_CHECK(self.numel() <= int64_t(INT32_MAX) && bins <= int64_t(INT32_MAX),
              "histc: expected fewer than 2^31 elements and bins, got ", self.sizes(), " and ", bins, " bins");
  if (self.numel() == 0) return return_or_copy("histc", at::zeros({bins}, self.options()), out);
  const HistogramParams p{uint32_t(self.numel()), uint32_t(bins), float(first), float(last)};
  const Tensor found = whole ? integer_histc(self, bins, int64_t(first), int64_t(last))
                             : count_bins(kernels, tag_of(self), self.contiguous(), p);
  return return_or_copy("histc", found.to(self.scalar_type()), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"bincount", &bincount>(m);
  op<"histc", &histc>(m);
}

}  // namespace mpsx::ops
