// Operators on elements by their place or value that are a few others, with no kernel of their own.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "index/params.h"
#include "ops/complex.h"
#include "ops/composed.h"
#include "ops/structured.h"
#include "ops/unique.h"

namespace mpsx::ops {

Runs::Runs(const Tensor& x, bool counts) {
  const auto longs = x.options().dtype(at::kLong);
  lengths = at::empty({0}, longs);
  if (x.size(0) == 0) {
    firsts = of = lengths;
    return;
  }
  Tensor differs = x.slice(0, 1).ne(x.slice(0, 0, -1));
  if (x.dim() > 1) differs = differs.any(1);
  const Tensor starts = at::cat({at::ones({1}, differs.options()), differs});
  firsts = starts.nonzero().squeeze(1);
  of = starts.cumsum(0, at::kLong).sub_(1);
  if (counts) lengths = at::cat({firsts.slice(0, 1), at::full({1}, x.size(0), longs)}).sub_(firsts);
}

UniqueRows::UniqueRows(const Tensor& self, int64_t d) : dim(at::maybe_wrap_dim(d, self.dim())) {
  const Tensor moved = self.dim() == 0 ? self.unsqueeze(0) : self.movedim(dim, 0);
  sizes = moved.sizes().vec();
  for (size_t i = 1; i < sizes.size(); ++i)
    TORCH_CHECK(sizes[i] > 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  rows = moved.reshape({sizes[0], sizes[0] > 0 ? -1 : 1}).contiguous();
}
Tensor UniqueRows::restored(const Tensor& some) const {
  std::vector<int64_t> shape(sizes);
  shape[0] = some.size(0);
  return some.view(shape).movedim(0, dim).contiguous();
}
Triple UniqueRows::none() const {
  const Tensor longs = at::empty({0}, rows.options().dtype(at::kLong));
  return {at::empty(sizes, rows.options()).movedim(0, dim).contiguous(), longs, longs.clone()};
}

namespace {

using at::Scalar;

// Every element is compared with every test element where these are few, and looked for among the sorted ones else.
Tensor& isin_out(const Tensor& elements, const Tensor& tests, bool assume_unique, bool invert, Tensor& out) {
  constexpr int64_t kFew = 8;
  const bool sortable = elements.scalar_type() == tests.scalar_type() && elements.scalar_type() != at::kBool;
  if (!has_all_kernels(elements) || !has_all_kernels(tests) || (tests.numel() > kFew && !sortable))
    return fallback_call<Tensor>("aten::isin", "Tensor_Tensor_out", elements, tests, assume_unique, invert, out), out;
  Structured<at::meta::structured_isin_Tensor_Tensor> outputs(out);
  outputs.meta(elements, tests, assume_unique, invert);
  const Tensor& result = outputs.result();
  if (tests.numel() == 0) {
    result.fill_(invert);
  } else if (tests.numel() <= kFew) {
    const Tensor found = elements.unsqueeze(-1).eq(tests.flatten()).any(-1);
    result.copy_(invert ? found.logical_not() : found);
  } else {
    const Tensor sorted = std::get<0>(tests.flatten().sort());
    const Tensor place = at::searchsorted(sorted, elements.contiguous()).clamp_max(tests.numel() - 1);
    const Tensor nearest = sorted.index_select(0, place.flatten()).view(elements.sizes());
    result.copy_(invert ? nearest.ne(elements) : nearest.eq(elements));
  }
  outputs.finish();
  return out;
}
Tensor& isin_scalar_out(const Tensor& elements, const Scalar& test, bool assume_unique, bool invert, Tensor& out) {
  if (!has_all_kernels(elements))
    return fallback_call<Tensor>("aten::isin", "Tensor_Scalar_out", elements, test, assume_unique, invert, out), out;
  Structured<at::meta::structured_isin_Tensor_Scalar> outputs(out);
  outputs.meta(elements, test, assume_unique, invert);
  outputs.result().copy_(invert ? elements.ne(test) : elements.eq(test));
  outputs.finish();
  return out;
}

Tensor& isin_of_number_out(const Scalar& element, const Tensor& tests, bool assume_unique, bool invert, Tensor& out) {
  if (!has_all_kernels(tests))
    return fallback_call<Tensor>("aten::isin", "Scalar_Tensor_out", element, tests, assume_unique, invert, out), out;
  const Tensor found = tests.eq(element).any();
  at::native::resize_output(out, {});
  return out.copy_(invert ? found.logical_not() : found), out;
}

// The elements of `source`, one after the other, where `mask` says so.
Tensor& masked_scatter(Tensor& self, const Tensor& mask, const Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
              source.scalar_type());
  TORCH_CHECK(self.device() == mask.device() && self.device() == source.device(),
              "masked_scatter: expected all tensors to be on the same device, got ", self.device(), ", ", mask.device(),
              " and ", source.device());
  if (!(has_all_kernels(self) || is_plain_complex(self)) || !is_plain(source) || mask.scalar_type() != at::kBool ||
      !is_plain(mask))
    return fallback_call<Tensor>("aten::masked_scatter_", "", self, mask, source), self;
  at::assert_no_internal_overlap(self);
  if (self.numel() == 0) return self;
  const Tensor chosen = mask.expand(self.sizes()).contiguous();
  const Tensor place = chosen.flatten().cumsum(0, at::kLong).sub_(1);
  const int64_t count = place[-1].item<int64_t>() + 1;
  TORCH_CHECK(count <= source.numel(), "masked_scatter: expected at least ", count,
              " elements in source, as many as mask selects, got ", source.numel());
  if (count == 0) return self;
  const Tensor taken = source.flatten().index_select(0, place.clamp_min_(0)).view(self.sizes());
  return self.copy_(at::where(chosen, taken, self));
}

Tensor& put(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  if (index.numel() == 0 && source.numel() == 0) return self;
  if (!has_all_kernels(self) || !is_plain(index) || !is_plain(source) || index.scalar_type() != at::kLong ||
      source.scalar_type() != self.scalar_type() || index.numel() != source.numel() || self.numel() == 0)
    return fallback_call<Tensor>("aten::put_", "", self, index, source, accumulate), self;
  at::assert_no_internal_overlap(self);
  const Tensor flat = self.is_contiguous() ? self.view(-1) : self.flatten();
  flat.index_put_({index.flatten()}, source.flatten(), accumulate);
  if (!self.is_contiguous()) self.copy_(flat.view(self.sizes()));
  return self;
}

Triple unique(const Tensor& self, bool sorted, bool return_inverse, bool return_counts) {
  if (!has_all_kernels(self))
    return fallback_call<Triple>("aten::_unique2", "", self, sorted, return_inverse, return_counts);
  const auto [values, order] = self.flatten().sort();
  const Runs runs(values, return_counts);
  Tensor inverse = at::empty({0}, order.options());
  if (return_inverse) inverse = at::empty_like(order).scatter_(0, order, runs.of).view(self.sizes());
  return {values.index_select(0, runs.firsts), inverse, runs.lengths};
}
Triple unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  if (!has_all_kernels(self))
    return fallback_call<Triple>("aten::unique_consecutive", "", self, return_inverse, return_counts, dim);
  const bool rows = dim && self.dim() > 1;
  if (dim) at::maybe_wrap_dim(*dim, self.dim());
  if (!rows) {
    const Tensor x = self.flatten();
    const Runs runs(x, return_counts);
    return {x.index_select(0, runs.firsts),
            return_inverse ? runs.of.view(self.sizes()) : at::empty({0}, runs.of.options()), runs.lengths};
  }
  const UniqueRows u(self, *dim);
  if (u.rows.size(0) == 0) return u.none();
  const Runs runs(u.rows, return_counts);
  return {u.restored(u.rows.index_select(0, runs.firsts)), return_inverse ? runs.of : at::empty({0}, runs.of.options()),
          runs.lengths};
}

std::tuple<Tensor, Tensor> unique_without_counts(const Tensor& self, bool sorted, bool return_inverse) {
  auto [values, inverse, counts] = unique(self, sorted, return_inverse, false);
  return {std::move(values), std::move(inverse)};
}
Triple unique_dim_consecutive(const Tensor& self, int64_t dim, bool return_inverse, bool return_counts) {
  return ops::unique_consecutive(self, return_inverse, return_counts, dim);
}

// How often each whole number from 0 on is there, or the sum of their weights.
// Of numbers below `bins`, of which there are fewer than 2^32. A CPU's threads count apart, a GPU's together.
Tensor count_numbers(const Tensor& numbers, int64_t bins) {
  static const KernelSet kernel("bincount");
  constexpr int64_t kWorthAPart = 1 << 16, kMostParts = 16;
  const int64_t count = numbers.numel();
  const bool wide = runtime::driver().info().vector_bytes == 0;
  const int64_t most = wide && bins <= kWorthAPart ? std::clamp<int64_t>(count / kWorthAPart, 1, kMostParts) : 1;
  const int64_t each = wide ? (count + most - 1) / most : 1, threads = (count + each - 1) / each;
  const Tensor found = at::zeros({wide ? threads : 1, bins}, numbers.options().dtype(at::kInt));
  const BincountParams p{uint32_t(count), uint32_t(each), bins};
  Launch(kernel.get())
      .pointer(found.mutable_data_ptr())
      .pointer(numbers.const_data_ptr())
      .bytes(p)
      .threads(uint64_t(threads))
      .work(uint64_t(each))
      .run();
  return found.size(0) == 1 ? found.select(0, 0).to(at::kLong) : found.sum(0);
}

Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, int64_t least) {
  const bool weighted = weights && weights->defined() && weights->numel() > 0;
  const bool whole = at::isIntegralType(self.scalar_type(), false);
  if (!is_plain(self) || !whole || (weighted && !(is_plain(*weights) && weights->scalar_type() == at::kFloat)))
    return fallback_call<Tensor>("aten::bincount", "", self, weights, least);
  TORCH_CHECK(least >= 0, "minlength should be >= 0");
  const auto longs = self.options().dtype(at::kLong);
  if (self.dim() == 1 && self.numel() == 0) return at::zeros({least}, longs);
  TORCH_CHECK(self.dim() == 1 && self.min().item<int64_t>() >= 0,
              "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const int64_t bins = std::max(self.max().item<int64_t>() + 1, least);
  if (!weighted && self.size(0) <= int64_t(INT32_MAX)) return count_numbers(self.to(at::kLong).contiguous(), bins);
  const Tensor each = weighted ? *weights : at::ones({1}, longs).expand({self.size(0)});
  return at::zeros({bins}, each.options()).scatter_add_(0, self.to(at::kLong), each);
}

// A histogram of `bins` equal parts of [low, high]; what lies outside counts nowhere.
Tensor& histc_out(const Tensor& self, int64_t bins, const Scalar& low, const Scalar& high, Tensor& out) {
  if (!is_plain(self) || !is_float_tag(tag_of(self)) || out.scalar_type() != self.scalar_type() || !is_plain(out))
    return fallback_call<Tensor>("aten::histc", "out", self, bins, low, high, out), out;
  TORCH_CHECK(bins > 0, "histc: expected bins > 0, got ", bins);
  double first = low.toDouble(), last = high.toDouble();
  if (first == last && self.numel() > 0) {
    first = self.min().item<double>();
    last = self.max().item<double>();
  }
  if (first == last) first -= 1, last += 1;
  TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "histc: range of [", first, ", ", last, "] is not finite");
  TORCH_CHECK(first < last, "histc: expected min < max, got ", first, " and ", last);
  at::native::resize_output(out, {bins});
  const Tensor x = self.flatten().to(at::kFloat);
  const Tensor inside = x.ge(first).logical_and_(x.le(last));
  const Tensor place = x.sub(first).mul_(double(bins)).div_(last - first).masked_fill_(inside.logical_not(), 0);
  const Tensor counts = at::zeros({bins}, x.options().dtype(at::kLong));
  counts.scatter_add_(0, place.to(at::kLong).clamp_max_(bins - 1), inside.to(at::kLong));
  return out.copy_(counts);
}
Tensor histc(const Tensor& self, int64_t bins, const Scalar& low, const Scalar& high) {
  Tensor out = at::empty({0}, self.options(), at::MemoryFormat::Contiguous);
  return histc_out(self, bins, low, high, out);
}

Tensor nonzero_static(const Tensor& numbers, int64_t size, int64_t fill) {
  const Tensor self = truth_of(numbers);
  if (!has_all_kernels(self)) return fallback_call<Tensor>("aten::nonzero_static", "", self, size, fill);
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  const Tensor found = self.nonzero();
  if (found.size(0) >= size) return found.narrow(0, 0, size).clone(at::MemoryFormat::Contiguous);
  return at::cat({found, at::full({size - found.size(0), self.dim()}, fill, found.options())});
}

Tensor& nonzero_static_out(const Tensor& self, int64_t size, int64_t fill, Tensor& out) {
  if (!has_all_kernels(self) || !is_plain(out) || out.scalar_type() != at::kLong)
    return fallback_call<Tensor>("aten::nonzero_static", "out", self, size, fill, out), out;
  const Tensor found = ops::nonzero_static(self, size, fill);
  at::native::resize_output(out, found.sizes());
  return out.copy_(found), out;
}

// Where the elements of a triangle are.
template <bool LOWER>
Tensor triangle_indices(int64_t rows, int64_t columns, int64_t offset, std::optional<at::ScalarType> type,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        std::optional<bool> pinned) {
  TORCH_CHECK(rows >= 0, "row must be non-negative, got", rows);
  TORCH_CHECK(columns >= 0, "col must be non-negative, got", columns);
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "only support layout=torch.strided, got", *layout);
  const auto options = at::TensorOptions().device(device).pinned_memory(pinned);
  const Tensor all = at::ones({rows, columns}, options.dtype(at::kBool));
  const Tensor found = (LOWER ? all.tril(offset) : all.triu(offset)).nonzero();
  return found.t().to(type.value_or(at::kLong)).contiguous();
}

// Rows of `self` that are looked up and longer than the norm allows are made as long as it allows.
Tensor& embedding_renorm(Tensor& self, const Tensor& indices, double longest, double p) {
  if (!is_plain(self) || !is_float_tag(tag_of(self)) || self.dim() != 2 || !is_plain(indices))
    return fallback_call<Tensor>("aten::embedding_renorm_", "", self, indices, longest, p), self;
  if (indices.numel() == 0) return self;
  const Tensor places = std::get<0>(unique(indices.flatten().to(at::kLong), true, false, false));
  const Tensor rows = self.index_select(0, places), norms = rows.norm(p, {1}, true, at::kFloat);
  const Tensor scale = shortening(norms, longest);
  return self.index_copy_(0, places, rows.mul(scale).to(self.scalar_type()));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("isin.Tensor_Tensor_out", &isin_out);
  m.impl("isin.Tensor_Scalar_out", &isin_scalar_out);
  m.impl("isin.Scalar_Tensor_out", &isin_of_number_out);
  m.impl("masked_scatter_", &masked_scatter);
  m.impl("put_", &put);
  m.impl("_unique2", &unique);
  m.impl("_unique", &unique_without_counts);
  m.impl("unique_consecutive", &unique_consecutive);
  m.impl("unique_dim_consecutive", &unique_dim_consecutive);
  m.impl("bincount", &bincount);
  m.impl("histc", &histc);
  m.impl("histc.out", &histc_out);
  m.impl("tril_indices", &triangle_indices<true>);
  m.impl("triu_indices", &triangle_indices<false>);
  m.impl("nonzero_static", &nonzero_static);
  m.impl("nonzero_static.out", &nonzero_static_out);
  m.impl("embedding_renorm_", &embedding_renorm);
}

}  // namespace mpsx::ops
