// bincount and histc: how often each number occurs, and how many numbers lie in each part of a range.
#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "index/params.h"
#include "ops/op.h"

namespace mpsx::ops {
namespace {

using at::Scalar;

// `count` elements in parts: a CPU's threads count apart, a GPU's together.
struct Parts {
  static constexpr int64_t kWorthAPart = 1 << 16, kMost = 16;
  bool apart = runtime::driver().info().vector_bytes == 0;
  int64_t each, threads;

  Parts(int64_t count, int64_t bins) {
    const int64_t most = apart && bins <= kWorthAPart ? std::clamp<int64_t>(count / kWorthAPart, 1, kMost) : 1;
    each = apart ? (count + most - 1) / most : 1;
    threads = (count + each - 1) / each;
  }
  // Bins at zero, a row for each who counts apart.
  Tensor bins(int64_t count, const Tensor& like, at::ScalarType type = at::kInt) const {
    return at::zeros({apart ? threads : 1, count}, like.options().dtype(type));
  }
};
Tensor added(const Tensor& found) { return found.size(0) == 1 ? found.select(0, 0) : found.sum(0); }

// Of numbers below `bins`, of which there are fewer than 2^32.
Tensor count_numbers(const Tensor& numbers, int64_t bins) {
  static const KernelSet together("bincount"), alone("bincount_alone");
  const Parts parts(numbers.numel(), bins);
  const bool one = parts.apart && parts.threads == 1;
  const Tensor found = parts.bins(bins, numbers, one ? at::kLong : at::kInt);
  const BincountParams p{uint32_t(numbers.numel()), uint32_t(parts.each), bins};
  Launch((one ? alone : together).get())
      .pointer(found.mutable_data_ptr())
      .pointer(numbers.const_data_ptr())
      .bytes(p)
      .threads(uint64_t(parts.threads))
      .work(uint64_t(parts.each))
      .run();
  return added(found).to(at::kLong);
}

// How often each whole number from 0 on is there, or the sum of their weights.
Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, int64_t least) {
  const bool weighted = weights && weights->defined() && weights->numel() > 0;
  const bool whole = at::isIntegralType(self.scalar_type(), false);
  if (!is_plain(self) || !whole || (weighted && !(is_plain(*weights) && weights->scalar_type() == at::kFloat)))
    return fallback_call<Tensor>("aten::bincount", "", self, weights, least);
  TORCH_CHECK(least >= 0, "minlength should be >= 0");
  const auto longs = self.options().dtype(at::kLong);
  if (self.dim() == 1 && self.numel() == 0) return at::zeros({least}, longs);
  constexpr const char* kExpected = "bincount only supports 1-d non-negative integral inputs.";
  TORCH_CHECK(self.dim() == 1, kExpected);
  const auto [smallest, largest] = self.aminmax();
  TORCH_CHECK(smallest.item<int64_t>() >= 0, kExpected);
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const int64_t bins = std::max(largest.item<int64_t>() + 1, least);
  if (!weighted && self.size(0) <= int64_t(INT32_MAX)) return count_numbers(self.to(at::kLong).contiguous(), bins);
  const Tensor each = weighted ? *weights : at::ones({1}, longs).expand({self.size(0)});
  return at::zeros({bins}, each.options()).scatter_add_(0, self.to(at::kLong), each);
}

// A histogram of `bins` equal parts of [low, high]; what lies outside counts nowhere.
Tensor& histc_out(const Tensor& self, int64_t bins, const Scalar& low, const Scalar& high, Tensor& out) {
  static const KernelSet kernels("histc");
  if (!is_plain(self) || !is_float_tag(tag_of(self)) || out.scalar_type() != self.scalar_type() || !is_plain(out))
    return fallback_call<Tensor>("aten::histc", "out", self, bins, low, high, out), out;
  TORCH_CHECK(bins > 0, "histc: expected bins > 0, got ", bins);
  double first = low.toDouble(), last = high.toDouble();
  if (first == last && self.numel() > 0) {
    const auto [smallest, largest] = self.aminmax();
    first = smallest.item<double>();
    last = largest.item<double>();
  }
  if (first == last) first -= 1, last += 1;
  TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "histc: range of [", first, ", ", last, "] is not finite");
  TORCH_CHECK(first < last, "histc: expected min < max, got ", first, " and ", last);
  TORCH_CHECK(self.numel() <= int64_t(INT32_MAX) && bins <= int64_t(INT32_MAX),
              "histc: expected fewer than 2^31 elements and bins, got ", self.sizes(), " and ", bins, " bins");
  at::native::resize_output(out, {bins});
  if (self.numel() == 0) return out.zero_();
  const Tensor x = self.contiguous();
  const Parts parts(x.numel(), bins);
  const Tensor found = parts.bins(bins, x);
  const HistcParams p{uint32_t(x.numel()), uint32_t(parts.each), uint32_t(bins), float(first), float(last)};
  Launch(kernels.get(tag_of(x)))
      .pointer(found.mutable_data_ptr())
      .pointer(x.const_data_ptr())
      .bytes(p)
      .threads(uint64_t(parts.threads))
      .work(uint64_t(parts.each))
      .run();
  return out.copy_(added(found));
}
Tensor histc(const Tensor& self, int64_t bins, const Scalar& low, const Scalar& high) {
  Tensor out = at::empty({0}, self.options(), at::MemoryFormat::Contiguous);
  return histc_out(self, bins, low, high, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("bincount", &bincount);
  m.impl("histc", &histc);
  m.impl("histc.out", &histc_out);
}

}  // namespace mpsx::ops
