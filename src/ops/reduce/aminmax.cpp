// aminmax. Reduces all elements in a single pass. Along a dimension, it calls amin and amax instead.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/reduce/reduce_plan.h"
#include "ops/selected.h"

namespace mpsx::ops {
namespace {

// Reduces all elements of a contiguous tensor.
std::tuple<Tensor, Tensor> aminmax_dense(const Tensor& x) {
  static const KernelSet kernels("aminmax");
  constexpr uint64_t kEach = 16384, kMaxParts = 256;
  const auto count = uint64_t(x.numel()), parts = std::clamp<uint64_t>(count / kEach, 1, kMaxParts);
  Tensor low = at::empty({}, x.options()), high = at::empty({}, x.options());
  const auto launch = [&](void* to_low, void* to_high, const void* from, uint64_t n, uint64_t groups) {
    const AminmaxParams p{n, (n + groups - 1) / groups};
    Launch(kernels.get(tag_of(x)))
        .pointer(to_low)
        .pointer(to_high)
        .pointer(from)
        .bytes(p)
        .groups({uint32_t((n + p.each - 1) / p.each), 1, 1}, runtime::threads_for_row(p.each))
        .work(p.each)
        .run();
  };
  if (parts == 1) {
    launch(low.mutable_data_ptr(), high.mutable_data_ptr(), x.const_data_ptr(), count, 1);
    return {low, high};
  }
  const Tensor found = at::empty({2, int64_t(parts)}, x.options());
  char* lows = static_cast<char*>(found.mutable_data_ptr());
  const uint64_t each = (count + parts - 1) / parts, groups = (count + each - 1) / each;
  launch(lows, lows + groups * x.element_size(), x.const_data_ptr(), count, parts);
  launch(low.mutable_data_ptr(), high.mutable_data_ptr(), lows, 2 * groups, 1);
  return {low, high};
}

bool aminmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim, Tensor& low, Tensor& high) {
  if (!has_number_kernel(x)) return false;
  const int64_t wrapped = dim ? at::maybe_wrap_dim(*dim, x.dim()) : 0;
  const at::IntArrayRef dims = dim ? at::IntArrayRef(wrapped) : at::IntArrayRef();
  for (const Tensor* out : {&low, &high})
    TORCH_CHECK(accepts(*out, x.scalar_type()), "Expected out tensor to have dtype ", x.dtype(), ", but got ",
                out->dtype(), " instead");
  assert_no_partial_overlap(x, low, high);
  if (dim) check_extremum("aminmax", x, dims, {});
  TORCH_CHECK(dim || x.numel() > 0,
              "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.");
  if (!dim && !keepdim && x.is_contiguous()) {
    const auto [min_key, max_key] = aminmax_dense(x);
    return return_or_copy("aminmax", min_key, low) && return_or_copy("aminmax", max_key, high);
  }
  return return_or_copy("aminmax", at::amin(x, dims, keepdim), low) &&
         return_or_copy("aminmax", at::amax(x, dims, keepdim), high);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { op<"aminmax", &aminmax>(m); }

}  // namespace mpsx::ops
