// Launches the kernels in metal/norm/softmax.metal.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

#include "norm/params.h"
#include "ops/operator.h"
#include "ops/rows.h"

namespace mpsx::ops {
namespace {

struct SoftmaxKernels {
  explicit SoftmaxKernels(const std::string& name) : rows(name + "_rows"), columns(name + "_columns") {}
  KernelSet rows, columns;
};
Tag second_tag(Tag in, Tag out) { return in == out ? Tag::none : out; }

void launch(const SoftmaxKernels& kernels, std::initializer_list<Tensor> inputs, const Tensor& result, int64_t dim) {
  const Tag in = tag_of(*inputs.begin()), out = tag_of(result);
  const c10::IntArrayRef shape = result.sizes();
  const auto bind = [&](Launch& l) {
    l.outputs(result);
    for (const Tensor& t : inputs) l.inputs(t);
  };
  uint64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= uint64_t(shape[size_t(d)]);
  for (size_t d = size_t(dim) + 1; d < shape.size(); ++d) inner *= uint64_t(shape[d]);
  const uint64_t size = shape.empty() ? 1 : uint64_t(shape[size_t(dim)]);
  SoftmaxParams p{uint32_t(size), uint32_t(inner), kSoftmaxColumns,
                  rows_aligned(inner, {*inputs.begin(), *(inputs.end() - 1), result})};
  if (inner == 1) {
    auto& kernel = kernels.rows.get(in, second_tag(in, out));
    const RowLaunch rows = share_rows(kernel, outer, size, inputs, {result});
    Launch l(kernel);
    bind(l);
    rows.run(l.bytes(rows.shape), size * 4);  // exp costs as much as several simple operations
    return;
  }
  // If a block would not stay in the cache between passes, use narrower blocks.
  while (p.block > 32 && size * p.block > 65536) p.block /= 2;
  Launch l(kernels.columns.get(in, second_tag(in, out)));
  bind(l);
  const uint32_t blocks = uint32_t((inner + p.block - 1) / p.block);
  l.bytes(p).groups({blocks, uint32_t(outer)}, kSoftmaxColumns).work(size * p.block * 4).run();
}

void check_size(const char* name, const Tensor& x, int64_t dim) {
  const int64_t size = x.dim() == 0 ? 1 : x.size(dim);
  TORCH_CHECK(size <= int64_t(UINT32_MAX) && x.numel() / std::max<int64_t>(size, 1) <= int64_t(UINT32_MAX), name,
              ": expected sizes below 2^32, got ", x.sizes());
}

template <OperatorName NAME>
bool softmax(const Tensor& input, int64_t dim, bool half_to_float, Tensor& out) {
  static const SoftmaxKernels kernels(NAME.text);
  TORCH_CHECK(input.is_floating_point() || input.is_complex(), NAME.text, ": expected a floating-point input, got ",
              input.scalar_type());
  if (!has_float_kernel(input)) return false;
  TORCH_CHECK(!half_to_float || input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16, NAME.text,
              ": conversion to float is supported for Half and BFloat16 input, got ", input.scalar_type());
  const at::ScalarType type = half_to_float ? at::kFloat : input.scalar_type();
  TORCH_CHECK(accepts(out, type), NAME.text, ": expected out of type ", type, ", got ", out.scalar_type());
  dim = at::maybe_wrap_dim(dim, input.dim());
  check_size(NAME.text, input, dim);
  const Tensor x = input.contiguous(), y = prepare_output(out, x.sizes(), x.options().dtype(type));
  if (x.numel() > 0) launch(kernels, {x}, y, dim);
  return return_or_copy(NAME.text, y, out);
}

// The kernels support gradients of the input's type, and float gradients of half inputs.
template <OperatorName NAME>
bool softmax_backward(const Tensor& grad, const Tensor& result, int64_t dim, at::ScalarType type, Tensor& grad_input) {
  static const SoftmaxKernels kernels(NAME.text + std::string("_backward"));
  if (!has_float_kernel(grad) || !has_float_kernel(result) || grad.scalar_type() != result.scalar_type() ||
      grad.sizes() != result.sizes() || !accepts(grad_input, type))
    return false;
  if (type != grad.scalar_type() && !(grad.scalar_type() == at::kFloat && is_float_tag(tag_of(type)))) return false;
  dim = at::maybe_wrap_dim(dim, grad.dim());
  check_size(NAME.text, grad, dim);
  const Tensor dy = grad.contiguous(), y = result.contiguous(),
               dx = prepare_output(grad_input, dy.sizes(), dy.options().dtype(type));
  if (dy.numel() > 0) launch(kernels, {dy, y}, dx, dim);
  return return_or_copy(NAME.text, dx, grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"_softmax", &softmax<"softmax">>(m);
  op<"_softmax_backward_data", &softmax_backward<"softmax">>(m);
  op<"_log_softmax", &softmax<"log_softmax">>(m);
  op<"_log_softmax_backward_data", &softmax_backward<"log_softmax">>(m);
}

}  // namespace mpsx::ops
