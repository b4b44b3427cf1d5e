// searchsorted and bucketize, and repeat_interleave.
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/op.h"
#include "sort/params.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
using OptionalTensor = std::optional<Tensor>;
using Side = std::optional<std::string_view>;

bool has_kernel(const Tensor& t) { return is_plain(t) && tag_of(t) < Tag::b8; }
uint32_t length(int64_t n) {
  TORCH_CHECK(n < UINT32_MAX, "searchsorted: expected sizes below 2^32 - 1, got ", n);
  return uint32_t(n);
}

// All contiguous, and of one type; `out`: of long, in the shape of `values`.
void search(const Tensor& boundaries, const Tensor& values, bool right, const Tensor& sorter, const Tensor& out) {
  static const KernelSet kernels("search");
  if (values.numel() == 0) return;
  const bool shared = boundaries.dim() == 1;
  const int64_t columns = shared ? values.numel() : values.size(-1);
  SearchParams p{length(columns), length(boundaries.size(-1)), 0, right, sorter.defined()};
  p.row_step = shared ? 0 : p.size;
  const uint32_t tile = runtime::driver().info().vector_bytes == 0 ? uint32_t(kSearchTile) : 1;
  Launch(kernels.get(tag_of(values)))
      .pointer(out.data_ptr())
      .pointer(values.const_data_ptr())
      .pointer(boundaries.const_data_ptr())
      .pointer(sorter.defined() ? sorter.const_data_ptr() : out.data_ptr())
      .bytes(p)
      .threads((p.values + tile - 1) / tile, length(values.numel() / columns))
      .work(uint64_t(std::min(tile, p.values)) * (64 - uint32_t(__builtin_clzll(uint64_t(p.size) | 1))))
      .run();
}

// Types and layouts as kernels want them. False: no kernel has the type.
bool prepare(Tensor& boundaries, Tensor& values, Tensor& sorter) {
  const at::ScalarType type =
      boundaries.scalar_type() == values.scalar_type() ? boundaries.scalar_type() : at::result_type(boundaries, values);
  if (!(tag_of(type) < Tag::b8) || !is_plain(boundaries) || (sorter.defined() && !is_plain(sorter))) return false;
  boundaries = boundaries.to(type).contiguous();
  values = values.to(boundaries.options()).contiguous();
  if (sorter.defined()) sorter = sorter.contiguous();
  return true;
}

bool is_right(bool right, Side side) { return side ? *side == "right" : right; }

Tensor& searchsorted_out(const Tensor& sorted, const Tensor& self, bool out_int32, bool right, Side side,
                         const OptionalTensor& order, Tensor& out) {
  Tensor boundaries = sorted, values = self, sorter = order.value_or(Tensor());
  at::native::searchsorted_pre_check(boundaries, values, out, out_int32, right, side, sorter);
  if (!is_plain(out) || !prepare(boundaries, values, sorter))
    return fallback_call<Tensor>("aten::searchsorted", "Tensor_out", sorted, self, out_int32, right, side, order, out),
           out;
  at::native::resize_output(out, self.sizes());
  if (boundaries.size(-1) == 0) return out.zero_();
  const bool fits = out.scalar_type() == at::kLong && out.is_contiguous();
  const Tensor places = fits ? out : at::empty(values.sizes(), values.options().dtype(at::kLong));
  search(boundaries, values, is_right(right, side), sorter, places);
  if (!fits) out.copy_(places);
  return out;
}
Tensor empty_for(const Tensor& values, bool out_int32) {
  return at::empty({0}, values.options().dtype(out_int32 ? at::kInt : at::kLong), at::MemoryFormat::Contiguous);
}
Tensor search_tensor(const Tensor& sorted, const Tensor& self, bool out_int32, bool right, Side side,
                     const OptionalTensor& sorter) {
  if (!has_kernel(sorted) || !has_kernel(self))
    return fallback_call<Tensor>("aten::searchsorted", "Tensor", sorted, self, out_int32, right, side, sorter);
  Tensor out = empty_for(self, out_int32);
  return searchsorted_out(sorted, self, out_int32, right, side, sorter, out);
}
Tensor searchsorted_scalar(const Tensor& sorted, const Scalar& self, bool out_int32, bool right, Side side,
                           const OptionalTensor& sorter) {
  if (!has_kernel(sorted) || self.isComplex())
    return fallback_call<Tensor>("aten::searchsorted", "Scalar", sorted, self, out_int32, right, side, sorter);
  Tensor out = empty_for(sorted, out_int32);
  return searchsorted_out(sorted, at::native::searchsorted_scalar_tensor(self, sorted.device()), out_int32, right, side,
                          sorter, out);
}

Tensor& searchsorted_scalar_out(const Tensor& sorted, const Scalar& self, bool out_int32, bool right, Side side,
                                const OptionalTensor& sorter, Tensor& out) {
  if (!has_kernel(sorted) || self.isComplex())
    return fallback_call<Tensor>("aten::searchsorted", "Scalar_out", sorted, self, out_int32, right, side, sorter, out),
           out;
  return searchsorted_out(sorted, at::native::searchsorted_scalar_tensor(self, sorted.device()), out_int32, right, side,
                          sorter, out);
}

void check_boundaries(const Tensor& boundaries) {
  TORCH_CHECK(boundaries.dim() == 1, "bucketize(): boundaries tensor must be 1 dimension, but got dim(",
              boundaries.dim(), ")");
}
Tensor& bucketize_out(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right, Tensor& out) {
  check_boundaries(boundaries);
  return searchsorted_out(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
}
Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right) {
  check_boundaries(boundaries);
  return search_tensor(boundaries, self, out_int32, right, std::nullopt, std::nullopt);
}
Tensor bucketize_scalar(const Scalar& self, const Tensor& boundaries, bool out_int32, bool right) {
  check_boundaries(boundaries);
  return searchsorted_scalar(boundaries, self, out_int32, right, std::nullopt, std::nullopt);
}

// Index i, as often as repeats[i] says: how many of them have ended at each place.
Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (!has_kernel(repeats)) return fallback_call<Tensor>("aten::repeat_interleave", "Tensor", repeats, output_size);
  if (repeats.size(0) == 0) return at::empty({0}, repeats.options());
  TORCH_CHECK(repeats.min().item<int64_t>() >= 0, "repeats can not be negative");
  const Tensor ends = repeats.cumsum(0, at::kLong);
  const int64_t total = ends[-1].item<int64_t>();
  TORCH_CHECK(!output_size || *output_size == total, "allocated size does not match required size");
  const Tensor ended = at::zeros({total + 1}, ends.options());
  ended.index_add_(0, ends, at::ones({1}, ends.options()).expand_as(ends));
  return ended.cumsum(0).slice(0, 0, total).to(repeats.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("searchsorted.Tensor", &search_tensor);
  m.impl("searchsorted.Tensor_out", &searchsorted_out);
  m.impl("searchsorted.Scalar", &searchsorted_scalar);
  m.impl("searchsorted.Scalar_out", &searchsorted_scalar_out);
  m.impl("bucketize.Tensor", &bucketize);
  m.impl("bucketize.Tensor_out", &bucketize_out);
  m.impl("bucketize.Scalar", &bucketize_scalar);
  m.impl("repeat_interleave.Tensor", &repeat_interleave);
}

}  // namespace mpsx::ops
