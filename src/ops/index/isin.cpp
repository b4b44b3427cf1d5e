// isin.
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/searchsorted.h>
#include <torch/library.h>

#include "ops/operator.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

using at::Scalar;

// If there are only a few test elements, compares with each of them. Otherwise, sorts them and searches for each
// element.
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
    // NaN compares unequal to everything. Sort NaN to the front, so that the search never ends on one.
    const Tensor sorted = at::isFloatingType(tests.scalar_type())
                              ? std::get<0>(tests.flatten().neg().sort()).neg().flip(0)
                              : std::get<0>(tests.flatten().sort());
    const Tensor position = at::searchsorted(sorted, elements.contiguous()).clamp_max(tests.numel() - 1);
    const Tensor nearest = sorted.index_select(0, position.flatten()).view(elements.sizes());
    result.copy_(invert ? nearest.ne(elements) : nearest.eq(elements));
  }
  return outputs.return_or_copy(out);
}
bool isin_scalar(const Tensor& elements, const Scalar& test, bool assume_unique, bool invert, Tensor& out) {
  if (!has_number_kernel(elements)) return false;
  Structured<at::meta::structured_isin_Tensor_Scalar> outputs(out);
  outputs.meta(elements, test, assume_unique, invert);
  outputs.result().copy_(invert ? elements.ne(test) : elements.eq(test));
  return outputs.return_or_copy(out);
}
bool isin_number(const Scalar& element, const Tensor& tests, bool, bool invert, Tensor& out) {
  if (!has_number_kernel(tests)) return false;
  const Tensor found = tests.eq(element).any();
  return return_or_copy("isin", invert ? found.logical_not() : found, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"isin.Tensor_Tensor", &isin>(m);
  op<"isin.Tensor_Scalar", &isin_scalar>(m);
  op<"isin.Scalar_Tensor", &isin_number>(m);
}

}  // namespace mpsx::ops
