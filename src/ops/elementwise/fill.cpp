// fill_, zero_, arange, range, linspace.
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include <cmath>
#include <cstring>

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/strided.h"

namespace mpsx::ops {
namespace {

// A value as the bytes of an element.
struct Pattern {
  Tag tag = Tag::none;  // the integer type of the element's size
  alignas(8) unsigned char bytes[8] = {};
};
template <typename T>
Pattern pattern(Tag tag, T value) {
  Pattern p{tag};
  static_assert(sizeof(T) <= sizeof(p.bytes));
  std::memcpy(p.bytes, &value, sizeof(T));
  return p;
}
// `checked`: what is too large for a half type is an error, and not infinite.
Pattern pattern(at::ScalarType type, const at::Scalar& s, bool checked) {
  switch (type) {
    case at::kFloat:
      return pattern(Tag::i32, s.to<float>());
    case at::kDouble:
      return pattern(Tag::i64, s.to<double>());
    case at::kHalf:
      return pattern(Tag::i16, checked ? s.to<at::Half>() : at::Half(float(s.toDouble())));
    case at::kBFloat16:
      return pattern(Tag::i16, checked ? s.to<at::BFloat16>() : at::BFloat16(float(s.toDouble())));
    case at::kLong:
      return pattern(Tag::i64, s.to<int64_t>());
    case at::kInt:
      return pattern(Tag::i32, s.to<int32_t>());
    case at::kShort:
      return pattern(Tag::i16, s.to<int16_t>());
    case at::kChar:
      return pattern(Tag::i8, s.to<int8_t>());
    case at::kByte:
      return pattern(Tag::i8, s.to<uint8_t>());
    case at::kBool:
      return pattern(Tag::i8, s.to<bool>());
    case at::kComplexFloat:
      return pattern(Tag::i64, s.to<c10::complex<float>>());
    default:
      return {};
  }
}

void fill_dense(char* data, uint64_t count, int64_t size, const Pattern& value) {
  static const KernelSet kernels("fill_dense");
  for (uint64_t begin = 0; begin < count; begin += kMaxDense) {
    const auto part = uint32_t(std::min(kMaxDense, count - begin));
    Launch(kernels.get(value.tag))
        .pointer(data + int64_t(begin) * size)
        .bytes(value.bytes, sizeof value.bytes)
        .bytes(part)
        .over(part, size_t(size))
        .run();
  }
}

void launch_fill(const Tensor& self, const Pattern& value) {
  static const KernelSet any("fill_any");
  const int64_t size = self.element_size();
  if (self.is_non_overlapping_and_dense()) {
    if (self.numel() > 0) fill_dense(static_cast<char*>(self.mutable_data_ptr()), uint64_t(self.numel()), size, value);
    return;
  }
  at::TensorIterator iter =
      at::TensorIteratorConfig().add_output(self).resize_outputs(false).check_all_same_dtype(false).build();
  if (iter.numel() == 0) return;
  for (auto& part : iter.with_32bit_indexing()) {
    each_strided<1>(part.shape(), {part.strides(0)}, {size}, [&](const StridedParams& p, const auto& offsets) {
      Launch(any.get(value.tag))
          .pointer(static_cast<char*>(part.data_ptr(0)) + offsets[0])
          .bytes(value.bytes, sizeof value.bytes)
          .bytes(p)
          .threads(p.size[0], p.size[1], uint64_t(p.size[2]) * p.size[3])
          .run();
    });
  }
}

Tensor& fill_scalar(Tensor& self, const at::Scalar& value) {
  // 0-dim tensors are how torch turns the number of `x[i] = 1e5` and `where(c, x, 1e5)` into a tensor.
  const bool checked = self.dim() > 0 || value.isComplex();
  const Pattern p = is_plain(self) ? pattern(self.scalar_type(), value, checked) : Pattern{};
  if (p.tag == Tag::none) return fallback_call<Tensor>("aten::fill_", "Scalar", self, value), self;
  launch_fill(self, p);
  return self;
}

Tensor& fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_: only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  return fill_scalar(self, at::_local_scalar_dense(value));
}

Tensor& zero(Tensor& self) {
  const size_t size = size_t(self.element_size());
  if (is_plain(self) && self.scalar_type() == at::kComplexDouble) return at::view_as_real(self).zero_(), self;
  if (!is_plain(self) || size > 8) return fallback_call<Tensor>("aten::zero_", "", self), self;
  launch_fill(self, {size == 1 ? Tag::i8 : size == 2 ? Tag::i16 : size == 4 ? Tag::i32 : Tag::i64});
  return self;
}

// A tensor of zeros without memory, which autograd passes on where a gradient is zero.
Tensor efficient_zeros(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                       std::optional<at::Device> device, std::optional<bool>) {
  at::native::ZeroTensorAllocator allocator(c10::device_or_default(device));
  const auto keys =
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(size, &allocator, keys, c10::dtype_or_default(dtype), std::nullopt);
}

// Numbers by their index into a contiguous tensor; `p` says which index comes first.
template <typename Params>
void launch_sequence(const KernelSet& kernels, const Tensor& out, Params& p) {
  const int64_t count = out.numel();
  for (int64_t first = 0; first < count; first += int64_t(kMaxDense)) {
    p.first = uint32_t(first);
    Launch(kernels.get(tag_of(out)))
        .pointer(static_cast<char*>(out.data_ptr()) + first * out.element_size())
        .bytes(p)
        .threads(uint64_t(std::min(int64_t(kMaxDense), count - first)))
        .run();
  }
}

Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, Tensor& out) {
  static const KernelSet arange("arange");
  const Tag tag = tag_of(out);
  if (!is_plain(out) || tag == Tag::none || !arange.has(tag) || !out.is_contiguous()) {
    fallback_call<Tensor>("aten::arange", "start_out", start, end, step, out);
    return out;
  }
  // As the CPU: integers count in integers, whatever the numbers; only int64 divides as integers, too.
  const bool whole = at::isIntegralType(out.scalar_type(), false);
  const bool integral = out.scalar_type() == at::kLong ||
                        (!whole && start.isIntegral(false) && end.isIntegral(false) && step.isIntegral(false));
  const double a = start.toDouble(), b = end.toDouble(), d = step.toDouble();
  TORCH_CHECK(d > 0 || d < 0, "arange: step must be nonzero");
  TORCH_CHECK_VALUE(out.scalar_type() != at::kLong || step.to<int64_t>() != 0, "arange: step must be nonzero");
  TORCH_CHECK(std::isfinite(a) && std::isfinite(b), "arange: unsupported range: ", a, " -> ", b);
  TORCH_CHECK((d > 0 && b >= a) || (d < 0 && b <= a),
              "arange: upper bound and lower bound inconsistent with step sign");
  int64_t count;
  if (integral) {
    const int64_t s = step.to<int64_t>(), sign = s > 0 ? 1 : -1;
    count = (end.to<int64_t>() - start.to<int64_t>() + s - sign) / s;
  } else {
    count = int64_t(std::ceil((b - a) / d));
  }
  if (out.numel() != count) {
    if (out.numel() > 0)
      TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
                 " which does not match the computed number of elements ", count,
                 ". Note that this may occur as a result of rounding error. The out tensor will be resized to a "
                 "tensor of shape (",
                 count, ",).");
    out.resize_({count});
  }
  SequenceParams p{};
  p.start = float(a);
  p.step = float(d);
  p.step_low = float(d - double(p.step));
  if (whole || integral) {
    p.int_start = start.to<int64_t>();
    p.int_step = step.to<int64_t>();
  }
  launch_sequence(arange, out, p);
  return out;
}

// Both ends belong to it.
Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, Tensor& out) {
  static const KernelSet arange("arange");
  const Tag tag = tag_of(out);
  if (!is_plain(out) || tag == Tag::none || !arange.has(tag))
    return fallback_call<Tensor>("aten::range", "out", start, end, step, out), out;
  const double a = start.toDouble(), b = end.toDouble(), d = step.toDouble();
  TORCH_CHECK(d > 0 || d < 0, "step must be nonzero");
  TORCH_CHECK(std::isfinite(a) && std::isfinite(b), "unsupported range: ", a, " -> ", b);
  TORCH_CHECK((d > 0 && b >= a) || (d < 0 && b <= a), "upper bound and lower bound inconsistent with step sign");
  const bool whole = at::isIntegralType(out.scalar_type(), false);
  TORCH_CHECK(!whole || step.to<int64_t>() != 0, "step must be nonzero");
  const int64_t count = whole && out.scalar_type() == at::kLong
                            ? (end.to<int64_t>() - start.to<int64_t>()) / step.to<int64_t>() + 1
                            : int64_t((b - a) / d + 1);
  if (out.numel() != count) out.resize_({count});
  SequenceParams p{float(a), float(d), float(d - double(float(d))), 0, 0, 0};
  if (whole || (start.isIntegral(false) && end.isIntegral(false) && step.isIntegral(false))) {
    p.int_start = start.to<int64_t>();
    p.int_step = step.to<int64_t>();
  }
  const Tensor result = out.is_contiguous() ? out : at::empty({count}, out.options());
  launch_sequence(arange, result, p);
  if (!result.is_same(out)) out.copy_(result.view(out.sizes()));
  return out;
}

// Of integers: exact quotients, whose fractions are cut off.
bool has_whole_linspace(const at::Scalar& start, const at::Scalar& end, int64_t steps, const Tensor& out) {
  if (!is_plain(out) || !at::isIntegralType(out.scalar_type(), false) || start.isComplex() || end.isComplex())
    return false;
  const double most = std::max(std::abs(start.toDouble()), std::abs(end.toDouble()));
  return std::isfinite(most) && most * 2 * double(std::max<int64_t>(steps, 1)) < 0x1p62;
}
Tensor& whole_linspace(const at::Scalar& start, const at::Scalar& end, int64_t steps, Tensor& out) {
  check_holds(out.scalar_type(), start);
  check_holds(out.scalar_type(), end);
  if (out.numel() != steps) out.resize_({steps});
  // A negative end of unsigned numbers wraps around first, as PyTorch's conversions do.
  const auto as_element = [&](const at::Scalar& s) {
    return out.scalar_type() == at::kByte ? int64_t(uint8_t(s.to<int64_t>())) : s.to<int64_t>();
  };
  if (steps == 0) return out;
  TORCH_CHECK(steps <= int64_t(UINT32_MAX), "linspace: expected fewer than 2^32 steps, got ", steps);
  static const KernelSet kernels("linspace_whole");
  const int64_t a = as_element(start), step = as_element(end) - a, parts = std::max<int64_t>(steps - 1, 1);
  const int64_t rest = (step % parts + parts) % parts;
  const WholeLinspaceParams p{a * parts, step, parts, (step - rest) / parts, rest, uint32_t(steps), 0};
  const uint32_t each = runtime::driver().info().vector_bytes == 0 ? uint32_t(kBlock) : 1;
  const Tensor result = out.is_contiguous() ? out : at::empty({steps}, out.options());
  Launch(kernels.get(tag_of(out)))
      .pointer(result.mutable_data_ptr())
      .bytes(p)
      .threads((p.count + each - 1) / each)
      .work(std::min(each, p.count))
      .run();
  if (!result.is_same(out)) out.copy_(result.view(out.sizes()));
  return out;
}

Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, Tensor& out) {
  static const KernelSet linspace("linspace");
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  const Tag tag = tag_of(out);
  if (has_whole_linspace(start, end, steps, out)) return whole_linspace(start, end, steps, out);
  if (tag == Tag::c64 && is_plain(out)) {
    if (out.numel() != steps) out.resize_({steps});
    const auto a = start.toComplexDouble(), b = end.toComplexDouble();
    const Tensor halves = at::view_as_real(out);
    const auto options = out.options().dtype(at::kFloat);
    halves.select(-1, 0).copy_(at::linspace(a.real(), b.real(), steps, options).view(out.sizes()));
    halves.select(-1, 1).copy_(at::linspace(a.imag(), b.imag(), steps, options).view(out.sizes()));
    return out;
  }
  if (!is_plain(out) || !is_float_tag(tag) || start.isComplex() || end.isComplex())
    return fallback_call<Tensor>("aten::linspace", "out", start, end, steps, out), out;
  check_holds(out.scalar_type(), start);
  check_holds(out.scalar_type(), end);
  if (out.numel() != steps) out.resize_({steps});
  TORCH_CHECK(steps <= int64_t(UINT32_MAX), "linspace: expected fewer than 2^32 steps, got ", steps);
  const double a = start.toDouble(), b = end.toDouble();
  const double step = steps > 1 ? (b - a) / double(steps - 1) : 0.0;
  // One step is the start.
  const float low = std::isfinite(float(step)) ? float(step - double(float(step))) : 0.0f;
  LinspaceParams p{float(a), float(steps == 1 ? a : b), float(step), low, 0, uint32_t(steps)};
  const Tensor result = out.is_contiguous() ? out : at::empty({steps}, out.options());
  launch_sequence(linspace, result, p);
  if (!result.is_same(out)) out.copy_(result.view(out.sizes()));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fill_.Scalar", &fill_scalar);
  m.impl("fill_.Tensor", &fill_tensor);
  m.impl("zero_", &zero);
  m.impl("_efficientzerotensor", &efficient_zeros);
  m.impl("arange.start_out", &arange_out);
  m.impl("range.out", &range_out);
  m.impl("linspace.out", &linspace_out);
}

}  // namespace mpsx::ops
