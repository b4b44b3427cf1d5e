#include "ops/elementwise/elementwise.h"

#include <ATen/Dispatch.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>

#include <limits>

#include "ops/elementwise/copy.h"
#include "ops/strided.h"

namespace mpsx::ops {
namespace {

constexpr size_t kMaxOperands = 4;
constexpr int64_t kMinTransposed = 1 << 15;  // with fewer elements, a separate launch does not pay off

// Saturates out-of-range numbers. This only matters for bool, because check_holds rejects them for all other integer
// types.
int64_t to_integer(double x) {
  constexpr double limit = 0x1p63;
  if (x >= -limit && x < limit) return int64_t(x);
  return x > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

// Stores the imaginary part in slots that complex operators do not otherwise use (metal/elementwise/complex.h).
void set_scalar(ScalarParams& p, int k, const at::Scalar& s) {
  const auto z = s.isComplex() ? s.toComplexDouble() : c10::complex<double>(s.toDouble());
  p.f[k] = float(z.real());  // overflows to infinity, as on the CPU
  if (s.isComplex()) p.f[k == 3 ? 2 : k + 1] = float(z.imag());
  p.i[k] = s.isFloatingPoint() ? to_integer(s.toDouble()) : s.isComplex() ? s.to<bool>() : s.to<int64_t>();
}

float rounded(float x, Tag tag) {
  return tag == Tag::f16 ? float(at::Half(x)) : tag == Tag::bf16 ? float(at::BFloat16(x)) : x;
}

}  // namespace

Tensor wrapped_number(const at::Scalar& s) {
  Tensor t = c10::scalar_to_tensor(s);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

void check_holds(at::ScalarType type, const at::Scalar& s) {
  if (at::isComplexType(type)) return;  // complex types can represent all numbers
  AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, type, "check_holds", [&] { (void)s.to<scalar_t>(); });
}

ScalarParams scalar_params(const at::Scalar& a, const at::Scalar& b, Tag type) {
  ScalarParams p{};
  set_scalar(p, 1, b);
  set_scalar(p, 0, a);
  for (float& f : p.f) f = rounded(f, type);
  return p;
}

// The operands of a launch, starting with the output. Inputs may be swapped.
struct ElementwiseKernels::Operands {
  Strided<kMaxOperands> loops;
  size_t count = 0;
  std::array<char*, kMaxOperands> data{};
  std::array<int64_t, kMaxOperands> element{};  // element sizes in bytes
  std::array<bool, kMaxOperands> inlined{};

  void swap_inputs() {
    std::swap(data[1], data[2]);
    std::swap(element[1], element[2]);
    std::swap(inlined[1], inlined[2]);
    std::swap(loops.strides[1], loops.strides[2]);
  }
  // Kernels always load from an operand's pointer, even if they then use an inlined value. So the pointer must be
  // valid: use that of a different operand.
  void set_inlined_pointers() {
    for (size_t k = 1; k < count; ++k) {
      if (!inlined[k]) continue;
      const size_t other = count > 2 ? 2 * count - 3 - k : 0;
      data[k] = data[other];
      element[k] = element[other];
      loops.strides[k] = loops.strides[other];
    }
  }
  bool steps(size_t k, int64_t stride) const { return loops.inner(k) == stride; }
  // Returns the dimensions from `first` on, coalesced again if possible.
  Strided<kMaxOperands> dimensions(size_t first) const {
    Strided<kMaxOperands> result;
    for (size_t d = first; d < loops.rank(); ++d) {
      std::array<int64_t, kMaxOperands> strides;
      for (size_t k = 0; k < kMaxOperands; ++k) strides[k] = loops.strides[k][d];
      result.push(loops.sizes[d], strides);
    }
    return result;
  }
  // Copies an input that is strided along the output's rows to the order of the output. A tiled transpose is cheaper
  // than reading one memory sector per element. Returns the copy, or an undefined tensor if no copy is needed.
  Tensor transpose(size_t k, const at::TensorOptions& options) {
    Tensor rows;
    if (!steps(0, 1) || loops.inner(k) <= 1) return rows;
    Strided<2> copy;
    at::DimVector dense;
    int64_t elements = 1;
    for (size_t d = 0; d < loops.rank(); ++d) {
      const int64_t stride = loops.strides[k][d];
      dense.push_back(stride ? elements : 0);
      if (!stride) continue;
      copy.push(loops.sizes[d], {elements, stride});
      elements *= loops.sizes[d];
    }
    if (elements < kMinTransposed || !is_transposition(copy)) return rows;
    rows = at::empty({elements * element[k]}, options.dtype(at::kByte));
    copy_strided(rows.mutable_data_ptr(), data[k], element[k], copy);
    data[k] = static_cast<char*>(rows.mutable_data_ptr());
    loops.strides[k] = dense;
    loops = dimensions(0);
    return rows;
  }
  // Returns whether all inputs are constant along x but the output is not.
  bool repeats_along_x() const {
    for (size_t k = 1; k < count; ++k)
      if (!steps(k, 0)) return false;
    return !steps(0, 0);
  }
};

ElementwiseKernels::ElementwiseKernels(const std::string& op, int inputs, Order order, Number number)
    : inputs_(inputs),
      order_(order),
      number_(number),
      dense_(op + "_dense"),
      rows_10_(op + "_rows_10"),
      rows_01_(op + "_rows_01"),
      strided_(op + "_strided"),
      mixed_(op + "_mixed") {}

ElementwiseKernels::ElementwiseKernels(const std::string& op, const char* mirror) : ElementwiseKernels(op, 2) {
  mirror_ = std::make_unique<ElementwiseKernels>(mirror, 2);
}

void ElementwiseKernels::run(at::TensorIteratorBase& iter, Tag tag, ScalarParams scalars, Tag second) const {
  if (iter.numel() == 0) return;
  if (!iter.can_use_32bit_indexing() && iter.numel() > Strided<kMaxOperands>::kMaxRow) {
    for (auto& part : iter.with_32bit_indexing()) run(part, tag, scalars, second);
    return;
  }
  Operands o;
  o.count = size_t(inputs_) + 1;
  for (size_t k = 0; k < o.count; ++k) {
    o.element[k] = int64_t(iter.element_size(int(k)));
    if (k > 0 && iter.tensor_base(int(k)).device().is_cpu()) {
      o.inlined[k] = true;
      set_scalar(scalars, 3, at::_local_scalar_dense(*c10::MaybeOwned<Tensor>::borrowed(iter.tensor(int(k)))));
      if (number_ != Number::EXACT || k + 1 < o.count) scalars.f[3] = rounded(scalars.f[3], tag);
      scalars.inlined = 1;
    } else {
      o.data[k] = static_cast<char*>(iter.data_ptr(int(k)));
    }
  }
  for (int d = 0; d < iter.ndim(); ++d) {
    std::array<int64_t, kMaxOperands> strides{};
    for (size_t k = 0; k < o.count; ++k) strides[k] = iter.strides(int(k))[size_t(d)] / o.element[k];
    o.loops.push(iter.shape()[size_t(d)], strides);
  }
  std::array<Tensor, kMaxOperands> rows;  // keeps the copies alive until the launch
  for (size_t k = 1; k < o.count; ++k)
    if (!o.inlined[k]) rows[k] = o.transpose(k, iter.tensor_base(int(k)).options());
  const ElementwiseKernels* kernels = this;
  const bool column_left = inputs_ == 2 && !o.inlined[2] && (o.inlined[1] || (o.steps(1, 0) && o.steps(2, 1)));
  if (column_left && (order_ == Order::SWAPS || mirror_)) {
    o.swap_inputs();
    if (mirror_) kernels = mirror_.get();
  }
  if (scalars.inlined) {
    scalars.inlined = 0;
    for (size_t k = 1; k < o.count; ++k) scalars.inlined |= o.inlined[k] ? 1u << k : 0u;
    o.set_inlined_pointers();
  }
  kernels->launch(o, tag, second, scalars);
}

const KernelSet& ElementwiseKernels::variant(const Operands& o, Tag tag) const {
  if (!o.steps(0, 1)) return strided_;
  bool dense = o.steps(1, 1);
  for (size_t k = 2; k < o.count; ++k) dense = dense && (o.steps(k, 1) || (inputs_ == 3 && o.steps(k, 0)));
  if (dense) return dense_;
  if (inputs_ == 2 && o.steps(1, 1) && o.steps(2, 0) && rows_10_.has(tag)) return rows_10_;
  if (inputs_ == 2 && o.steps(1, 0) && o.steps(2, 1) && rows_01_.has(tag)) return rows_01_;
  return strided_;
}

void ElementwiseKernels::launch(const Operands& o, Tag tag, Tag second, ScalarParams& s) const {
  if (o.repeats_along_x()) {  // compute one element per row, and then copy it along the row
    Operands once = o;
    Strided<2> along;
    for (size_t d = 0; d < o.loops.rank(); ++d)
      along.push(o.loops.sizes[d], {o.loops.strides[0][d], d ? o.loops.strides[0][d] : 0});
    once.loops = o.dimensions(1);
    launch(once, tag, second, s);
    return copy_strided(o.data[0], o.data[0], o.element[0], along);
  }
  const KernelSet& set = second == Tag::none ? variant(o, tag) : mixed_;
  const auto element = size_t(*std::max_element(o.element.begin(), o.element.end()));
  StridedParams p{};
  o.loops.each(p, 4, [&](const auto& offsets) {
    Launch launch(set.get(tag, second));
    std::array<const void*, kMaxOperands> rows{};
    for (size_t k = 0; k < o.count; ++k)
      launch.pointer(rows[k] = o.data[k] + offsets[k] * o.element[k], k ? Access::read : Access::write);
    launch.bytes(p).bytes(s);
    over_rows(launch, p, &set == &strided_ ? 0 : element, rows).run();
  });
}

c10::MaybeOwned<Tensor> to_common(const Tensor& t, at::ScalarType common) {
  using Input = c10::MaybeOwned<Tensor>;
  if (C10_UNLIKELY(t.is_conj() || t.is_neg())) return Input::owned(t.resolve_conj().resolve_neg().to(common));
  return t.device().is_cpu() || t.scalar_type() == common ? Input::borrowed(t) : Input::owned(t.to(common));
}

}  // namespace mpsx::ops
