// Launchers of metal/norm/softmax.metal.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

#include "norm/params.h"
#include "ops/op.h"

namespace mpsx::ops {
namespace {

constexpr uint32_t kSoftmaxColumns = 256;  // as kSoftmaxColumns of the kernels

struct SoftmaxKernels {
  explicit SoftmaxKernels(const std::string& name) : rows(name + "_rows"), columns(name + "_columns") {}
  KernelSet rows, columns;
};
struct Variant {
  SoftmaxKernels forward, backward;
  const char* name;          // "softmax"
  const char* op;            // "aten::_softmax"
  const char* backward_op;   // "aten::_softmax_backward_data"
  const char* backward_out;  // the overload of its out= form
};
const Variant& softmax_variant() {
  static const Variant v{SoftmaxKernels("softmax"), SoftmaxKernels("softmax_backward"), "softmax",
                         "aten::_softmax",          "aten::_softmax_backward_data",     "out"};
  return v;
}
const Variant& log_softmax_variant() {
  static const Variant v{SoftmaxKernels("log_softmax"), SoftmaxKernels("log_softmax_backward"), "log_softmax",
                         "aten::_log_softmax",          "aten::_log_softmax_backward_data",     "out"};
  return v;
}

Tag second_tag(Tag in, Tag out) { return in == out ? Tag::none : out; }

// The launch over `shape` along `dim`: `bind` adds the memory arguments.
template <typename Bind>
void launch(const SoftmaxKernels& kernels, Tag in, Tag out, c10::IntArrayRef shape, int64_t dim, Bind bind) {
  uint64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= uint64_t(shape[size_t(d)]);
  for (size_t d = size_t(dim) + 1; d < shape.size(); ++d) inner *= uint64_t(shape[d]);
  const uint64_t size = shape.empty() ? 1 : uint64_t(shape[size_t(dim)]);
  SoftmaxParams p{uint32_t(size), uint32_t(inner), kSoftmaxColumns};
  if (inner == 1) {
    Launch l(kernels.rows.get(in, second_tag(in, out)));
    bind(l);
    // exp is worth several plain elements.
    l.bytes(p).groups({uint32_t(outer)}, runtime::threads_for_row(size)).work(size * 4).run();
    return;
  }
  // Few columns each where the block would not stay in the cache between its passes.
  while (p.block > 32 && size * p.block > 65536) p.block /= 2;
  Launch l(kernels.columns.get(in, second_tag(in, out)));
  bind(l);
  const uint32_t blocks = uint32_t((inner + p.block - 1) / p.block);
  l.bytes(p).groups({blocks, uint32_t(outer)}, p.block).work(size * p.block * 4).run();
}

void check_size(const char* name, const Tensor& x, int64_t dim) {
  const int64_t size = x.dim() == 0 ? 1 : x.size(dim);
  TORCH_CHECK(size <= int64_t(UINT32_MAX) && x.numel() / std::max<int64_t>(size, 1) <= int64_t(UINT32_MAX), name,
              ": expected sizes below 2^32, got ", x.sizes());
}

// `out` undefined: allocated.
Tensor forward_to(const Variant& v, const Tensor& input, int64_t dim_given, at::ScalarType type, const Tensor& out) {
  const int64_t dim = at::maybe_wrap_dim(dim_given, input.dim());
  check_size(v.name, input, dim);
  const Tensor x = input.contiguous();
  if (out.defined()) at::native::resize_output(out, x.sizes());
  const Tensor result =
      out.defined() && out.is_contiguous() && is_plain(out) ? out : at::empty(x.sizes(), x.options().dtype(type));
  if (x.numel() > 0)
    launch(v.forward, tag_of(x), tag_of(type), x.sizes(), dim,
           [&](Launch& l) { l.pointer(result.mutable_data_ptr()).pointer(x.const_data_ptr()); });
  if (out.defined() && !result.is_same(out)) out.copy_(result);
  return out.defined() ? out : result;
}

at::ScalarType result_type(const Variant& v, const Tensor& x, bool half_to_float) {
  TORCH_CHECK(!half_to_float || x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16, v.name,
              ": conversion to float is supported for Half and BFloat16 input, got ", x.scalar_type());
  return half_to_float ? at::kFloat : x.scalar_type();
}

Tensor forward(const Variant& v, const Tensor& x, int64_t dim, bool half_to_float) {
  TORCH_CHECK(x.is_floating_point() || x.is_complex(), v.name, ": expected a floating-point input, got ",
              x.scalar_type());
  if (!has_float_kernel(x)) return fallback_call<Tensor>(v.op, "", x, dim, half_to_float);
  return forward_to(v, x, dim, result_type(v, x, half_to_float), Tensor());
}
Tensor& forward_out(const Variant& v, const Tensor& x, int64_t dim, bool half_to_float, Tensor& out) {
  TORCH_CHECK(x.is_floating_point() || x.is_complex(), v.name, ": expected a floating-point input, got ",
              x.scalar_type());
  if (!has_float_kernel(x) || !is_plain(out)) return fallback_call<Tensor>(v.op, "out", x, dim, half_to_float, out), out;
  const at::ScalarType type = result_type(v, x, half_to_float);
  TORCH_CHECK(out.scalar_type() == type, v.name, ": expected out of type ", type, ", got ", out.scalar_type());
  return forward_to(v, x, dim, type, out), out;
}

// Kernels exist for equal types, and for a float result of half inputs.
bool backward_fits(const Tensor& grad, const Tensor& result, at::ScalarType type) {
  return has_float_kernel(grad) && has_float_kernel(result) && grad.scalar_type() == result.scalar_type() &&
         grad.sizes() == result.sizes() &&
         (type == grad.scalar_type() || (grad.scalar_type() == at::kFloat && is_float_tag(tag_of(type))));
}
Tensor backward_to(const Variant& v, const Tensor& grad, const Tensor& result, int64_t dim_given, at::ScalarType type,
                   const Tensor& out) {
  const int64_t dim = at::maybe_wrap_dim(dim_given, grad.dim());
  check_size(v.name, grad, dim);
  const Tensor dy = grad.contiguous(), y = result.contiguous();
  if (out.defined()) at::native::resize_output(out, dy.sizes());
  const Tensor dx =
      out.defined() && out.is_contiguous() && is_plain(out) ? out : at::empty(dy.sizes(), dy.options().dtype(type));
  if (dy.numel() > 0)
    launch(v.backward, tag_of(dy), tag_of(type), dy.sizes(), dim, [&](Launch& l) {
      l.pointer(dx.mutable_data_ptr()).pointer(dy.const_data_ptr()).pointer(y.const_data_ptr());
    });
  if (out.defined() && !dx.is_same(out)) out.copy_(dx);
  return out.defined() ? out : dx;
}
Tensor backward(const Variant& v, const Tensor& grad, const Tensor& result, int64_t dim, at::ScalarType type) {
  if (!backward_fits(grad, result, type)) return fallback_call<Tensor>(v.backward_op, "", grad, result, dim, type);
  return backward_to(v, grad, result, dim, type, Tensor());
}
Tensor& backward_out(const Variant& v, const Tensor& grad, const Tensor& result, int64_t dim, at::ScalarType type,
                     Tensor& out) {
  if (!backward_fits(grad, result, type) || !is_plain(out) || out.scalar_type() != type)
    return fallback_call<Tensor>(v.backward_op, v.backward_out, grad, result, dim, type, out), out;
  return backward_to(v, grad, result, dim, type, out), out;
}

#define FORMS(NAME)                                                                                       \
  Tensor NAME(const Tensor& x, int64_t dim, bool half_to_float) {                                         \
    return forward(NAME##_variant(), x, dim, half_to_float);                                              \
  }                                                                                                       \
  Tensor& NAME##_out(const Tensor& x, int64_t dim, bool half_to_float, Tensor& out) {                     \
    return forward_out(NAME##_variant(), x, dim, half_to_float, out);                                     \
  }                                                                                                       \
  Tensor NAME##_backward(const Tensor& grad, const Tensor& result, int64_t dim, at::ScalarType type) {    \
    return backward(NAME##_variant(), grad, result, dim, type);                                           \
  }                                                                                                       \
  Tensor& NAME##_backward_out(const Tensor& grad, const Tensor& result, int64_t dim, at::ScalarType type, \
                              Tensor& out) {                                                              \
    return backward_out(NAME##_variant(), grad, result, dim, type, out);                                  \
  }
FORMS(softmax)
FORMS(log_softmax)

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_softmax", &softmax);
  m.impl("_softmax.out", &softmax_out);
  m.impl("_softmax_backward_data", &softmax_backward);
  m.impl("_softmax_backward_data.out", &softmax_backward_out);
  m.impl("_log_softmax", &log_softmax);
  m.impl("_log_softmax.out", &log_softmax_out);
  m.impl("_log_softmax_backward_data", &log_softmax_backward);
  m.impl("_log_softmax_backward_data.out", &log_softmax_backward_out);
}

}  // namespace mpsx::ops
