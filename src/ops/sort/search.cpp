// searchsorted and bucketize.
#include <ATen/native/BucketizationUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include "ops/operator.h"
#include "sort/params.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
using OptionalTensor = std::optional<Tensor>;
using Side = std::optional<std::string_view>;

uint32_t length(int64_t n) {
  TORCH_CHECK(n < UINT32_MAX, "searchsorted: expected sizes below 2^32 - 1, got ", n);
  return uint32_t(n);
}

// All operands must be contiguous and have the same dtype. `out` is an int64 tensor with the shape of `values`.
void search(const Tensor& boundaries, const Tensor& values, bool right, const Tensor& sorter, const Tensor& out) {
  static const KernelSet kernels("search");
  if (values.numel() == 0) return;
  const bool shared = boundaries.dim() == 1;
  const int64_t columns = shared ? values.numel() : values.size(-1);
  SearchParams p{length(columns), length(boundaries.size(-1)), 0, right, sorter.defined()};
  p.row_step = shared ? 0 : p.size;
  Launch(kernels.get(tag_of(values)))
      .outputs(out)
      .inputs(values, boundaries)
      .pointer(sorter.defined() ? sorter.const_data_ptr() : out.data_ptr())
      .bytes(p)
      .threads(p.values, length(values.numel() / columns))
      .work(64 - uint32_t(__builtin_clzll(uint64_t(p.size) | 1)))
      .run();
}

// Converts operands to the dtypes and layouts that the kernels expect. Returns false if no kernel supports the dtype.
bool prepare(Tensor& boundaries, Tensor& values, Tensor& sorter) {
  const at::ScalarType type =
      boundaries.scalar_type() == values.scalar_type() ? boundaries.scalar_type() : at::result_type(boundaries, values);
  if (!(tag_of(type) < Tag::b8) || !is_plain(boundaries) || (sorter.defined() && !is_plain(sorter))) return false;
  boundaries = boundaries.to(type).contiguous();
  values = values.to(boundaries.options()).contiguous();
  if (sorter.defined()) sorter = sorter.contiguous();
  return true;
}

bool searchsorted(const Tensor& sorted, const Tensor& self, bool out_int32, bool right, Side side,
                  const OptionalTensor& order, Tensor& out) {
  Tensor boundaries = sorted, values = self, sorter = order.value_or(Tensor());
  const at::ScalarType type = out_int32 ? at::kInt : at::kLong;
  at::native::searchsorted_pre_check(boundaries, values,
                                     out.defined() ? out : at::empty({0}, self.options().dtype(type)), out_int32, right,
                                     side, sorter);
  if (!prepare(boundaries, values, sorter)) return false;
  const Tensor positions = prepare_output(out, self.sizes(), self.options().dtype(at::kLong));
  if (boundaries.size(-1) == 0)
    positions.zero_();
  else
    search(boundaries, values, side ? *side == "right" : right, sorter, positions);
  return return_or_copy("searchsorted", positions.to(type), out);
}
bool searchsorted_scalar(const Tensor& sorted, const Scalar& self, bool out_int32, bool right, Side side,
                         const OptionalTensor& order, Tensor& out) {
  if (self.isComplex()) return false;
  // The CPU would make a float64 tensor of the number, and the device has no float64.
  const Tensor number = at::native::searchsorted_scalar_tensor(self, at::kCPU);
  const Tensor value = number.to(at::result_type(sorted, number)).to(sorted.device());
  return searchsorted(sorted, value, out_int32, right, side, order, out);
}

void check_boundaries(const Tensor& boundaries) {
  TORCH_CHECK(boundaries.dim() == 1, "bucketize(): boundaries tensor must be 1 dimension, but got dim(",
              boundaries.dim(), ")");
}
bool bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right, Tensor& out) {
  check_boundaries(boundaries);
  return searchsorted(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
}
bool bucketize_scalar(const Scalar& self, const Tensor& boundaries, bool out_int32, bool right, Tensor& out) {
  check_boundaries(boundaries);
  return searchsorted_scalar(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"searchsorted.Tensor", &searchsorted>(m);
  op<"searchsorted.Scalar", &searchsorted_scalar>(m);
  op<"bucketize.Tensor", &bucketize>(m);
  op<"bucketize.Scalar", &bucketize_scalar>(m);
}

}  // namespace mpsx::ops
