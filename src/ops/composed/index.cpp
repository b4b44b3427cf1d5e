// Operators on elements by place or value that are composed of others.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "ops/composed/composed.h"
#include "ops/elementwise/complex.h"
#include "ops/index/index_add.h"
#include "ops/index/scatter.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

using at::Scalar;

// Every element is compared with every test element where these are few, and looked for among the sorted ones else.
bool isin(const Tensor& elements, const Tensor& tests, bool assume_unique, bool invert, Tensor& out) {
  constexpr int64_t kFew = 8;
  const bool sortable = elements.scalar_type() == tests.scalar_type() && elements.scalar_type() != at::kBool;
  if (!has_number_kernel(elements) || !has_number_kernel(tests) || (tests.numel() > kFew && !sortable)) return false;
  Structured<at::meta::structured_isin_Tensor_Tensor> outputs(out);
  outputs.meta(elements, tests, assume_unique, invert);
  const Tensor& result = outputs.result();
  if (tests.numel() == 0) {
    result.fill_(invert);
  } else if (tests.numel() <= kFew) {
    const Tensor found = elements.unsqueeze(-1).eq(tests.flatten()).any(-1);
    result.copy_(invert ? found.logical_not() : found);
  } else {
    // NaN, which equals nothing, comes before the numbers, where the search passes it by.
    const Tensor sorted = at::isFloatingType(tests.scalar_type())
                              ? std::get<0>(tests.flatten().neg().sort()).neg().flip(0)
                              : std::get<0>(tests.flatten().sort());
    const Tensor place = at::searchsorted(sorted, elements.contiguous()).clamp_max(tests.numel() - 1);
    const Tensor nearest = sorted.index_select(0, place.flatten()).view(elements.sizes());
    result.copy_(invert ? nearest.ne(elements) : nearest.eq(elements));
  }
  return outputs.finish(out);
}
bool isin_scalar(const Tensor& elements, const Scalar& test, bool assume_unique, bool invert, Tensor& out) {
  if (!has_number_kernel(elements)) return false;
  Structured<at::meta::structured_isin_Tensor_Scalar> outputs(out);
  outputs.meta(elements, test, assume_unique, invert);
  outputs.result().copy_(invert ? elements.ne(test) : elements.eq(test));
  return outputs.finish(out);
}
bool isin_of_number(const Scalar& element, const Tensor& tests, bool, bool invert, Tensor& out) {
  if (!has_number_kernel(tests)) return false;
  const Tensor found = tests.eq(element).any();
  return deliver("isin", invert ? found.logical_not() : found, out);
}

// The elements of `source`, one after the other, where `mask` says so.
bool masked_scatter(Tensor& self, const Tensor& mask, const Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
              source.scalar_type());
  TORCH_CHECK(self.device() == mask.device() && self.device() == source.device(),
              "masked_scatter: Expected all tensors to be on the same device, but found at least two devices, ",
              self.device(), ", ", mask.device(), " and ", source.device());
  if (!(has_number_kernel(self) || is_plain_complex(self)) || !is_plain(source) || mask.scalar_type() != at::kBool ||
      !is_plain(mask))
    return false;
  at::assert_no_internal_overlap(self);
  if (self.numel() == 0) return true;
  const Tensor chosen = mask.expand(self.sizes()).contiguous();
  const Tensor place = chosen.flatten().cumsum(0, at::kLong).sub_(1);
  const int64_t count = place[-1].item<int64_t>() + 1;
  TORCH_CHECK(count <= source.numel(), "masked_scatter: expected at least ", count,
              " elements in source, as many as mask selects, got ", source.numel());
  if (count == 0) return true;
  const Tensor taken = source.flatten().index_select(0, place.clamp_min_(0)).view(self.sizes());
  self.copy_(at::where(chosen, taken, self));
  return true;
}

bool put(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  if (index.numel() == 0 && source.numel() == 0 && index.scalar_type() == at::kLong &&
      source.scalar_type() == self.scalar_type())
    return true;
  if (!has_number_kernel(self) || !is_plain(index) || !is_plain(source) || index.scalar_type() != at::kLong ||
      source.scalar_type() != self.scalar_type() || index.numel() != source.numel() || self.numel() == 0)
    return false;
  at::assert_no_internal_overlap(self);
  at::assert_no_overlap(self, index);
  at::assert_no_overlap(self, source);
  const Tensor flat = self.is_contiguous() ? self.view(-1) : self.flatten();
  const Tensor where = index.flatten().contiguous(), values = source.flatten();
  check_index("put_", where, flat.numel(), 0, true);
  if (accumulate)
    add_rows(flat, 0, where, values, true);
  else
    scatter_along(Scatter::set, {flat, where, values}, 0, true);
  if (!self.is_contiguous()) self.copy_(flat.view(self.sizes()));
  return true;
}

bool nonzero_static(const Tensor& numbers, int64_t size, int64_t fill, Tensor& out) {
  const Tensor self = truth_of(numbers);
  if (!has_number_kernel(self)) return false;
  TORCH_CHECK(takes(out, at::kLong), "nonzero_static: Expected out tensor to have scalar type Long but got scalar type",
              out.scalar_type());
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  const Tensor found = self.nonzero();
  if (found.size(0) >= size)
    return deliver("nonzero_static", found.narrow(0, 0, size).clone(at::MemoryFormat::Contiguous), out);
  const Tensor rest = at::full({size - found.size(0), self.dim()}, fill, found.options());
  return deliver("nonzero_static", at::cat({found, rest}), out);
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
bool embedding_renorm(Tensor& self, const Tensor& indices, double longest, double p) {
  if (!has_float_kernel(self) || self.dim() != 2 || !is_plain(indices)) return false;
  if (indices.numel() == 0) return true;
  const Tensor places = std::get<0>(at::_unique2(indices.flatten().to(at::kLong)));
  const Tensor rows = self.index_select(0, places), norms = rows.norm(p, {1}, true, at::kFloat);
  self.index_copy_(0, places, rows.mul(shortening(norms, longest)).to(self.scalar_type()));
  return true;
}

std::optional<Tensor> roll(const Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims) {
  if (!movable(self)) return std::nullopt;
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    const Tensor flat = self.contiguous().view(self.numel());
    return ops::roll(flat, shifts, {0})->view(self.sizes());
  }
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  Tensor from = self;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = at::maybe_wrap_dim(dims[i], from.dim());
    const int64_t size = from.size(dim), shift = size == 0 ? 0 : ((shifts[i].expect_int() % size) + size) % size;
    // As at::cat has it, of an empty part too.
    const auto format = shift == 0 ? at::MemoryFormat::Contiguous : from.suggest_memory_format();
    const Tensor to = at::empty_like(from, format);
    if (from.numel() > 0) {
      to.narrow(dim, shift, size - shift).copy_(from.narrow(dim, 0, size - shift));
      if (shift > 0) to.narrow(dim, 0, shift).copy_(from.narrow(dim, size - shift, shift));
    }
    from = to;
  }
  return from;
}

// Index i, as often as repeats[i] says: how many of them have ended at each place.
bool repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size, Tensor& out) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (!has_number_kernel(repeats)) return false;
  if (repeats.size(0) == 0) return deliver("repeat_interleave", at::empty({0}, repeats.options()), out);
  TORCH_CHECK(repeats.min().item<int64_t>() >= 0, "repeats can not be negative");
  const Tensor ends = repeats.cumsum(0, at::kLong);
  const int64_t total = ends[-1].item<int64_t>();
  TORCH_CHECK(!output_size || *output_size == total, "allocated size does not match required size");
  const Tensor ended = at::zeros({total + 1}, ends.options());
  ended.index_add_(0, ends, at::ones({1}, ends.options()).expand_as(ends));
  return deliver("repeat_interleave", ended.cumsum(0).slice(0, 0, total).to(repeats.scalar_type()), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"isin.Tensor_Tensor", &isin>(m);
  op<"isin.Tensor_Scalar", &isin_scalar>(m);
  op<"isin.Scalar_Tensor", &isin_of_number>(m);
  op<"masked_scatter_", &masked_scatter>(m);
  op<"put_", &put>(m);
  op<"nonzero_static", &nonzero_static>(m);
  op<"embedding_renorm_", &embedding_renorm>(m);
  op<"roll", &ops::roll>(m);
  op<"repeat_interleave.Tensor", &repeat_interleave>(m);
  m.impl("tril_indices", &triangle_indices<true>);
  m.impl("triu_indices", &triangle_indices<false>);
}

}  // namespace mpsx::ops
