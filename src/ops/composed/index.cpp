// Operators on elements by their place or value that are a few others, with no kernel of their own.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_unique2.h>
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
#include "ops/elementwise/complex.h"
#include "ops/composed/composed.h"
#include "ops/index/index_add.h"
#include "ops/indexing.h"
#include "ops/index/scatter.h"
#include "ops/structured.h"

namespace mpsx::ops {
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
  const auto check_count = [&](int64_t count) {
    TORCH_CHECK(count <= source.numel(), "masked_scatter: expected at least ", count,
                " elements in source, as many as mask selects, got ", source.numel());
  };
  constexpr int64_t kFew = 32768, kFewOfGpu = 256;
  const int64_t few = runtime::driver().info().vector_bytes == 0 ? kFew : kFewOfGpu;
  if (self.numel() <= few && self.is_contiguous() && bits_tag(self) != Tag::none) {
    static const KernelSet kernels("masked_scatter");
    const Tensor taken = at::empty({1}, self.options().dtype(at::kLong)), values = source.contiguous();
    Launch(kernels.get(bits_tag(self)))
        .pointer(self.mutable_data_ptr())
        .pointer(taken.mutable_data_ptr())
        .pointer(chosen.const_data_ptr())
        .pointer(values.const_data_ptr())
        .bytes(uint32_t(self.numel()))
        .bytes(uint64_t(values.numel()))
        .threads(1)
        .work(uint64_t(self.numel()))
        .run();
    check_count(taken.item<int64_t>());
    return self;
  }
  const Tensor place = chosen.flatten().cumsum(0, at::kLong).sub_(1);
  const int64_t count = place[-1].item<int64_t>() + 1;
  check_count(count);
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
  const Tensor where = index.flatten().contiguous(), values = source.flatten();
  check_index("put_", where, flat.numel(), 0, true);
  if (accumulate)
    add_rows(flat, 0, where, values, true);
  else
    scatter_along(Scatter::set, {flat, where, values}, 0, true);
  if (!self.is_contiguous()) self.copy_(flat.view(self.sizes()));
  return self;
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
  const Tensor places = std::get<0>(at::_unique2(indices.flatten().to(at::kLong)));
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
  m.impl("tril_indices", &triangle_indices<true>);
  m.impl("triu_indices", &triangle_indices<false>);
  m.impl("nonzero_static", &nonzero_static);
  m.impl("nonzero_static.out", &nonzero_static_out);
  m.impl("embedding_renorm_", &embedding_renorm);
}

}  // namespace mpsx::ops
