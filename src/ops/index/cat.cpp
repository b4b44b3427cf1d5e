// cat, which stack also calls. Copies each input to a slice of the output.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <optional>

#include "ops/elementwise/copy.h"
#include "ops/indexing.h"
#include "ops/narrow.h"
#include "ops/operator.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

// PyTorch ignores empty 1-D inputs, regardless of the shapes of the other inputs.
bool skipped(const Tensor& t) { return t.dim() == 1 && t.size(0) == 0; }

// Copies one input to the output, at `offset` along `dim`.
void put(const Tensor& out, const Tensor& in, int64_t dim, int64_t offset) {
  if (in.scalar_type() == out.scalar_type() && is_bitwise_copyable(in) && is_bitwise_copyable(out))
    return copy_strided(at_element(out, offset * out.stride(dim)), in.const_data_ptr(), out.element_size(),
                        Strided<2>::ordered(in.sizes(), {out.strides(), in.strides()}));
  const Tensor slice = narrowed(out, dim, offset, in.size(dim));
  if (!copy_on_device(slice, in)) slice.copy_(in);
}

void fill(const Tensor& out, const at::ITensorListRef& tensors, int64_t dim) {
  if (out.numel() == 0) return;
  int64_t offset = 0;
  for (const Tensor& t : tensors) {
    if (skipped(t)) continue;
    if (t.numel() > 0) put(out, t, dim, offset);
    offset += t.size(dim);
  }
}

// Returns the sizes of the output if the tensors differ only in dimension `dim`. PyTorch's own checks would cost more
// than a small copy. But for four or more dimensions, they also choose a memory format, so returns nullopt.
std::optional<at::DimVector> plain_sizes(const at::ITensorListRef& tensors, int64_t& dim) {
  if (tensors.size() == 0) return std::nullopt;
  const Tensor& first = tensors.front();
  const int64_t dims = first.dim();
  if (dims == 0 || dims > 3 || dim < -dims || dim >= dims) return std::nullopt;
  if (dim < 0) dim += dims;
  at::DimVector sizes(first.sizes().begin(), first.sizes().end());
  sizes[size_t(dim)] = 0;
  for (const Tensor& t : tensors) {
    if (!is_plain(t) || t.dim() != dims || t.scalar_type() != first.scalar_type() || t.device() != first.device() ||
        skipped(t))
      return std::nullopt;
    for (int64_t d = 0; d < dims; ++d)
      if (d == dim)
        sizes[size_t(d)] += t.size(d);
      else if (t.size(d) != sizes[size_t(d)])
        return std::nullopt;
  }
  return sizes;
}

bool cat(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  if (!out.defined()) {
    int64_t wrapped = dim;
    if (const auto sizes = plain_sizes(tensors, wrapped)) {
      out = at::empty(*sizes, tensors.front().options());
      fill(out, tensors, wrapped);
      return true;
    }
  }
  for (const Tensor& t : tensors)  // PyTorch's checks below report tensors on other devices
    if (t.device().type() == at::kPrivateUse1 && !is_plain(t)) return false;
  const auto materialized = tensors.materialize();
  for (const Tensor& t : materialized) check_same_device("cat", materialized[0].get(), t);
  Structured<at::meta::structured_cat> outputs(out);
  const auto plan = outputs.meta(tensors, at::legacy_cat_wrap_dim(dim, materialized));
  fill(outputs.result(), tensors, plan.dim);
  return outputs.return_or_copy(out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { op<"cat", &cat>(m); }

}  // namespace mpsx::ops
