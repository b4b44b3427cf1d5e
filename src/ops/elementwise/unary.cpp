// Launches and registers the operators in unary.def and the unary operators in special.def.
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <torch/library.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {
namespace {

enum class Result : uint8_t { SAME, BOOL };
struct UnaryRow {
  const char* name;
  Types types;
  Result result;
};
#define MPSX_UNARY(NAME, TYPES, RESULT, ...) UnaryRow{#NAME, Types::TYPES, Result::RESULT},
#define MPSX_SPECIAL(NAME, ...) UnaryRow{#NAME, Types::FLOAT, Result::SAME},
#define MPSX_SPECIAL_BINARY(...)
#define MPSX_RARE_BINARY(...)
constexpr UnaryRow kUnary[] = {
#include "elementwise/special.def"
#include "elementwise/unary.def"
};
constexpr size_t kUnaryCount = std::size(kUnary);

consteval size_t unary_row(std::string_view name) {
  size_t i = 0;
  while (kUnary[i].name != name) ++i;
  return i;
}

// Operators whose output is real even if the input is complex: abs and angle.
struct ComplexRow {
  std::string_view name, result;
};
#define MPSX_COMPLEX(NAME, RESULT, ...) ComplexRow{#NAME, #RESULT},
#define MPSX_COMPLEX_BINARY(...)
#define MPSX_COMPLEX_TERNARY(...)
constexpr ComplexRow kComplex[] = {
#include "elementwise/complex.def"
};
template <size_t I>
constexpr bool real_of_complex = std::any_of(std::begin(kComplex), std::end(kComplex), [](const ComplexRow& row) {
  return row.name == kUnary[I].name && row.result == "float";
});

template <size_t I>
const ElementwiseKernels& unary_kernels() {
  static const ElementwiseKernels k(kUnary[I].name, 1);
  return k;
}

template <size_t I>
bool run_unary(const Tensor& self, Tensor& out) {
  constexpr UnaryRow row = kUnary[I];
  if (self.device().type() != at::kPrivateUse1) return false;
  const bool promotes = row.types == Types::FLOAT && at::isIntegralType(self.scalar_type(), true);
  const at::ScalarType type =
      promotes ? c10::typeMetaToScalarType(c10::get_default_dtype()) : self.scalar_type();
  const Tag tag = tag_of(type);
  if (tag == Tag::c64 ? !unary_kernels<I>().has(tag) : !covers(row.types, tag)) return false;
  const bool real = real_of_complex<I> && tag == Tag::c64;
  TORCH_CHECK(!real || !out.is_same(self), "In-place ", row.name, " is not supported for complex tensors.");
  const at::ScalarType result = row.result == Result::BOOL ? at::kBool : real ? at::kFloat : type;
  if (!accepts(out, result)) {
    constexpr std::string_view name = row.name;
    constexpr bool is_sign_test = name == "isposinf" || name == "isneginf" || name == "signbit";
    TORCH_CHECK(!is_sign_test, name, " does not support non-boolean outputs.");
    // Operators from integers to integers only support outputs of the input's dtype.
    const bool casts = (row.types == Types::FLOAT && name != "frac") || row.result == Result::BOOL || real;
    TORCH_CHECK(casts, "Found dtype ", out.scalar_type(), " but expected ", result);
    return false;
  }
  // If the input is complex and the output real, the CPU resizes the output to contiguous strides. TensorIterator does
  // not.
  if (real && out.defined()) allocate_or_resize(out, self.sizes(), out.options());
  const auto input = to_common(self, type);
  auto config = at::TensorIteratorConfig();
  config.add_output(out).add_const_input(*input);
  if (result != type) config.check_all_same_dtype(false).declare_static_dtype(result);
  at::TensorIterator iter = config.build();
  unary_kernels<I>().run(iter, tag, ScalarParams{});
  if (!out.defined()) out = iter.output();
  return true;
}

template <size_t I>
bool unary(const Tensor& self, Tensor& out) {
  return run_unary<I>(self, out);
}
// As on the CPU, the angles of complex numbers are contiguous, regardless of the layout of the input.
template <>
bool unary<unary_row("angle")>(const Tensor& self, Tensor& out) {
  if (is_plain(self) && self.scalar_type() == at::kComplexFloat && !out.defined())
    out = at::empty(self.sizes(), self.options().dtype(at::kFloat));
  return run_unary<unary_row("angle")>(self, out);
}
// torch.amp.GradScaler inverts its scale in float64, for which there are no kernels. Invert single elements here, on
// the CPU.
template <>
bool unary<unary_row("reciprocal")>(const Tensor& self, Tensor& out) {
  if (self.scalar_type() != at::kDouble || self.numel() != 1 || !is_plain(self))
    return run_unary<unary_row("reciprocal")>(self, out);
  return return_or_copy("reciprocal",
                        at::full(self.sizes(), 1.0 / at::_local_scalar_dense(self).toDouble(), self.options()), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  [&]<size_t... I>(std::index_sequence<I...>) { (op<OperatorName(kUnary[I].name), &unary<I>>(m), ...); }
  (std::make_index_sequence<kUnaryCount>());
}

}  // namespace mpsx::ops
