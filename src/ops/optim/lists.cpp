#include "ops/optim/lists.h"

namespace mpsx::ops {
namespace {

bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  if (a.strides() == b.strides()) return true;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

}  // namespace

bool fits_list_kernels(at::ArrayRef<at::TensorList> lists) {
  const at::TensorList first = lists[0];
  if (first.empty() || !is_float_tag(tag_of(first[0]))) return false;
  const at::ScalarType type = first[0].scalar_type();
  for (size_t l = 0; l < lists.size(); ++l)
    for (size_t i = 0; i < first.size(); ++i) {
      const Tensor& t = lists[l][i];
      if (t.scalar_type() != type || !is_plain(t)) return false;
      if (l == 0 ? !t.is_non_overlapping_and_dense() : !same_layout(first[i], t)) return false;
    }
  return true;
}

}  // namespace mpsx::ops
