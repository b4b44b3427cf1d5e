// fill_, zero_, eye, arange, range, linspace, logspace.
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/torch_version.h"
#include "ops/elementwise/elementwise.h"
#include "ops/indexing.h"
#include "ops/strided.h"

namespace mpsx::ops {
namespace {

// A fill value, stored as the bytes of one element.
struct Pattern {
  Tag tag = Tag::none;  // the integer type of the same size
  alignas(8) unsigned char bytes[8] = {};
};
template <typename T>
Pattern pattern(Tag tag, T value) {
  Pattern p{tag};
  static_assert(sizeof(T) <= sizeof(p.bytes));
  std::memcpy(p.bytes, &value, sizeof(T));
  return p;
}
// If the value overflows a half type, throws if `checked` is true. Otherwise, stores infinity.
Pattern pattern(at::ScalarType type, const at::Scalar& s, bool checked) {
  switch (type) {
    case at::kFloat: return pattern(Tag::i32, s.to<float>());
    case at::kDouble: return pattern(Tag::i64, s.to<double>());
    case at::kHalf: return pattern(Tag::i16, checked ? s.to<at::Half>() : at::Half(float(s.toDouble())));
    case at::kBFloat16: return pattern(Tag::i16, checked ? s.to<at::BFloat16>() : at::BFloat16(float(s.toDouble())));
    case at::kLong: return pattern(Tag::i64, s.to<int64_t>());
    case at::kInt: return pattern(Tag::i32, s.to<int32_t>());
    case at::kShort: return pattern(Tag::i16, s.to<int16_t>());
    case at::kChar: return pattern(Tag::i8, s.to<int8_t>());
    case at::kByte: return pattern(Tag::i8, s.to<uint8_t>());
    case at::kBool: return pattern(Tag::i8, s.to<bool>());
    case at::kComplexFloat: return pattern(Tag::i64, s.to<c10::complex<float>>());
    default: return {};
  }
}

void launch_fill(const Tensor& self, const Pattern& value) {
  static const KernelSet dense("fill_dense"), strided("fill_strided");
  if (self.numel() == 0) return;
  const auto loops = Strided<1>::ordered(self.sizes(), {self.strides()});
  const bool rows = loops.inner(0) == 1;
  StridedParams p{};
  loops.each(p, 4, [&](const auto& offsets) {
    Launch launch((rows ? dense : strided).get(value.tag));
    const std::array<const void*, 1> first{at_element(self, offsets[0])};
    launch.pointer(first[0], Access::write).bytes(value.bytes, sizeof value.bytes).bytes(p);
    over_rows(launch, p, rows ? size_t(self.element_size()) : 0, first).run();
  });
}

bool fill_number(Tensor& self, const at::Scalar& value) {
  // For `x[i] = 1e5` and `where(c, x, 1e5)`, PyTorch first fills a 0-dim tensor with the number. That must not throw.
  const bool checked = self.dim() > 0 || value.isComplex();
  const Pattern p = is_plain(self) ? pattern(self.scalar_type(), value, checked) : Pattern{};
  if (p.tag == Tag::none) return false;
  launch_fill(self, p);
  return true;
}

bool fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_: only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  self.fill_(at::_local_scalar_dense(value));
  return true;
}

bool zero(Tensor& self) {
  if (is_plain(self) && self.scalar_type() == at::kComplexDouble) return at::view_as_real(self).zero_(), true;
  if (!is_plain(self) || bits_tag(self) == Tag::none) return false;
  launch_fill(self, {bits_tag(self)});
  return true;
}

// Creates ZeroTensors, which have no memory. Autograd uses them for gradients that are zero.
Tensor efficient_zeros(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                       std::optional<at::Device> device, std::optional<bool>) {
  at::native::ZeroTensorAllocator allocator(c10::device_or_default(device));
  const auto keys =
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(size, &allocator, keys, c10::dtype_or_default(dtype), std::nullopt);
}

// Fills `out` with a sequence. For every launch, sets `p.first` to the index of its first element.
template <typename Params>
void launch_sequence(const KernelSet& kernels, const Tensor& out, Params& p) {
  constexpr int64_t kMaxChunk = int64_t(1) << 30;
  const Tensor to = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  for (int64_t first = 0; first < to.numel(); first += kMaxChunk) {
    p.first = uint32_t(first);
    Launch(kernels.get(tag_of(to)))
        .pointer(at_element(to, first))
        .bytes(p)
        .threads(uint64_t(std::min(kMaxChunk, to.numel() - first)))
        .run();
  }
  if (!to.is_same(out)) out.copy_(to);
}

const KernelSet& arange_kernels() {
  static const KernelSet kernels("arange");
  return kernels;
}
bool has_arange(const Tensor& out) {
  return is_plain(out) && tag_of(out) != Tag::none && arange_kernels().has(tag_of(out));
}

// Throws if the number of steps of size `d` from `a` to `b` does not fit in an int64.
void check_steps(double a, double b, double d) {
  TORCH_CHECK((b - a) / d < double(std::numeric_limits<int64_t>::max()), "invalid size, possible overflow?");
}

bool arange(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, Tensor& out) {
  if (!has_arange(out)) return false;
  // As on the CPU, integer sequences are computed in integer arithmetic. Their length is computed in integer arithmetic
  // only for int64 (and since PyTorch 2.14 only if all arguments are integers).
  const bool whole = at::isIntegralType(out.scalar_type(), false);
  const bool all_integral = start.isIntegral(false) && end.isIntegral(false) && step.isIntegral(false);
  const bool integral = out.scalar_type() == at::kLong ? backend::kArangeTruncatesFirst || all_integral
                                                       : !whole && all_integral;
  const double a = start.toDouble(), b = end.toDouble(), d = step.toDouble();
  TORCH_CHECK(d > 0 || d < 0, "arange: step must be nonzero");
  TORCH_CHECK_VALUE(!integral || step.to<int64_t>() != 0, "arange: step must be nonzero");
  TORCH_CHECK(std::isfinite(a) && std::isfinite(b), "arange: unsupported range: ", a, " -> ", b);
  TORCH_CHECK((d > 0 && b >= a) || (d < 0 && b <= a),
              "arange: upper bound and lower bound inconsistent with step sign");
  check_steps(a, b, d);
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
  launch_sequence(arange_kernels(), out, p);
  return true;
}

// Unlike arange, range includes both ends.
bool range(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, Tensor& out) {
  if (!has_arange(out)) return false;
  const double a = start.toDouble(), b = end.toDouble(), d = step.toDouble();
  TORCH_CHECK(d > 0 || d < 0, "step must be nonzero");
  TORCH_CHECK(std::isfinite(a) && std::isfinite(b), "unsupported range: ", a, " -> ", b);
  TORCH_CHECK((d > 0 && b >= a) || (d < 0 && b <= a), "upper bound and lower bound inconsistent with step sign");
  check_steps(a, b, d);
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
  launch_sequence(arange_kernels(), out, p);
  return true;
}

// Returns whether the kernel integer_linspace, which truncates exact quotients, supports the arguments.
bool has_integer_linspace(const at::Scalar& start, const at::Scalar& end, int64_t steps, const Tensor& out) {
  if (!is_plain(out) || !at::isIntegralType(out.scalar_type(), false) || start.isComplex() || end.isComplex())
    return false;
  const double max_magnitude = std::max(std::abs(start.toDouble()), std::abs(end.toDouble()));
  return std::isfinite(max_magnitude) && max_magnitude * 2 * double(steps) < 0x1p62;
}
void integer_linspace(const at::Scalar& start, const at::Scalar& end, int64_t steps, Tensor& out) {
  check_holds(out.scalar_type(), start);
  check_holds(out.scalar_type(), end);
  // If the output is unsigned, a negative start or end first wraps around, as in PyTorch's conversions.
  const auto as_element = [&](const at::Scalar& s) {
    return out.scalar_type() == at::kByte ? int64_t(uint8_t(s.to<int64_t>())) : s.to<int64_t>();
  };
  TORCH_CHECK(steps <= int64_t(UINT32_MAX), "linspace: expected fewer than 2^32 steps, got ", steps);
  static const KernelSet kernels("linspace_integer");
  const int64_t a = as_element(start), parts = steps - 1;
  const IntegerLinspaceParams p{a * parts, as_element(end) - a, parts};
  const Tensor to = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  Launch(kernels.get(tag_of(out))).outputs(to).bytes(p).threads(uint64_t(steps)).run();
  if (!to.is_same(out)) out.copy_(to);
}

bool linspace(const at::Scalar& start, const at::Scalar& end, int64_t steps, Tensor& out) {
  static const KernelSet kernels("linspace");
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
  if (steps == 0) return true;  // even if start or end is invalid
  if (steps == 1) return out.fill_(start), true;
  const Tag tag = tag_of(out);
  if (has_integer_linspace(start, end, steps, out)) return integer_linspace(start, end, steps, out), true;
  if (tag == Tag::c64 && is_plain(out)) {
    const auto a = start.toComplexDouble(), b = end.toComplexDouble();
    const Tensor halves = at::view_as_real(out);
    const auto options = out.options().dtype(at::kFloat);
    halves.select(-1, 0).copy_(at::linspace(a.real(), b.real(), steps, options).view(out.sizes()));
    halves.select(-1, 1).copy_(at::linspace(a.imag(), b.imag(), steps, options).view(out.sizes()));
    return true;
  }
  if (!is_plain(out) || !is_float_tag(tag) || start.isComplex() || end.isComplex()) return false;
  check_holds(out.scalar_type(), start);
  check_holds(out.scalar_type(), end);
  TORCH_CHECK(steps <= int64_t(UINT32_MAX), "linspace: expected fewer than 2^32 steps, got ", steps);
  const double a = start.toDouble(), b = end.toDouble();
  const double step = (b - a) / double(steps - 1);
  const float low = std::isfinite(float(step)) ? float(step - double(float(step))) : 0.0f;
  LinspaceParams p{float(a), float(b), float(step), low, 0, uint32_t(steps)};
  launch_sequence(kernels, out, p);
  return true;
}

Tensor& eye_out(int64_t rows, int64_t columns, Tensor& out) {
  TORCH_CHECK(rows >= 0, "n must be greater or equal to 0, got ", rows);
  TORCH_CHECK(columns >= 0, "m must be greater or equal to 0, got ", columns);
  out.resize_({rows, columns}).zero_();
  out.diagonal().fill_(1);
  return out;
}
Tensor& eye_square_out(int64_t rows, Tensor& out) { return eye_out(rows, rows, out); }

Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, Tensor& out) {
  if (!has_float_kernel(out) || start.isComplex() || end.isComplex())
    return fall_back<Tensor>("logspace.out", start, end, steps, base, out), out;
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
  if (steps == 0) return out;
  const Tensor exponents = at::linspace(start, end, steps, out.options().dtype(at::kFloat));
  out.copy_(at::pow(at::Scalar(base), exponents).view(out.sizes()));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"fill_.Scalar", &fill_number>(m);
  op<"fill_.Tensor", &fill_tensor>(m);
  op<"zero_", &zero>(m);
  impl(m, "_efficientzerotensor", &efficient_zeros);
  out_op<"arange.start_out", &arange>(m);
  out_op<"range.out", &range>(m);
  out_op<"linspace.out", &linspace>(m);
  impl(m, "logspace.out", &logspace_out);
  impl(m, "eye.out", &eye_square_out);
  impl(m, "eye.m_out", &eye_out);
}

}  // namespace mpsx::ops
