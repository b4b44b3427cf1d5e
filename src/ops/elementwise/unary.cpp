// Launchers and registration of every operator in unary.def, and of special.def those of one number.
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <torch/library.h>

#include <string_view>
#include <utility>

#include "ops/elementwise/elementwise.h"
#include "ops/schema.h"

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
constexpr UnaryRow kRows[] = {
#include "elementwise/special.def"
#include "elementwise/unary.def"
};
constexpr size_t kRowCount = std::size(kRows);

template <size_t I>
const ElementwiseKernels& kernels() {
  static const ElementwiseKernels k(kRows[I].name, 1);
  return k;
}

bool promotes(const UnaryRow& row, const Tensor& t) {
  return row.types == Types::FLOAT && at::isIntegralType(t.scalar_type(), true);
}

// The type kernels compute this input in; none when the row has no kernel for it.
template <size_t I>
Tag compute_tag(const Tensor& self) {
  const at::ScalarType type =
      promotes(kRows[I], self) ? c10::typeMetaToScalarType(c10::get_default_dtype()) : self.scalar_type();
  const Tag tag = tag_of(type);
  const bool covered = tag == Tag::c64 ? kernels<I>().has(tag) : covers(kRows[I].types, tag);
  return covered && self.device().type() == at::kPrivateUse1 ? tag : Tag::none;
}

// Modulus and angle of complex numbers are real.
template <size_t I>
bool real_of_complex(Tag tag) {
  const std::string_view name = kRows[I].name;
  return tag == Tag::c64 && (name == "abs" || name == "angle");
}

// `out` undefined: allocated here.
template <size_t I>
at::TensorIterator run(const Tensor& self, Tag tag, const Tensor& out) {
  const UnaryRow& row = kRows[I];
  const auto input = promotes(row, self) ? to_common(self, c10::typeMetaToScalarType(c10::get_default_dtype()))
                                         : c10::MaybeOwned<Tensor>::borrowed(self);
  auto config = at::TensorIteratorConfig();
  config.add_output(out).add_const_input(*input);
  if (row.result == Result::BOOL)
    config.check_all_same_dtype(false).declare_static_dtype(at::kBool);
  else if (real_of_complex<I>(tag))
    config.check_all_same_dtype(false).declare_static_dtype(at::kFloat);
  at::TensorIterator iter = config.build();
  kernels<I>().run(iter, tag, ScalarParams{});
  return iter;
}
template <size_t I>
Tensor run_new(const Tensor& self, Tag tag) {
  Tensor out;
  if (real_of_complex<I>(tag) && std::string_view(kRows[I].name) == "angle")
    out = at::empty(self.sizes(), self.options().dtype(at::kFloat));  // contiguous, as the CPU's is
  return run<I>(self, tag, out).output();
}

template <size_t I>
at::ScalarType result_type(Tag tag) {
  if (kRows[I].result == Result::BOOL) return at::kBool;
  return tag == Tag::f32    ? at::kFloat
         : tag == Tag::f16  ? at::kHalf
         : tag == Tag::bf16 ? at::kBFloat16
                            : at::ScalarType::Undefined;
}

template <size_t I>
Tensor functional(const Tensor& self) {
  static const std::string name = std::string("aten::") + kRows[I].name;
  const Tag tag = compute_tag<I>(self);
  // torch.amp.GradScaler inverts its scale in float64, which no kernel computes in: a single number is inverted here.
  if constexpr (std::string_view(kRows[I].name) == "reciprocal")
    if (self.scalar_type() == at::kDouble && self.numel() == 1 && is_plain(self))
      return at::full(self.sizes(), 1.0 / at::_local_scalar_dense(self).toDouble(), self.options());
  if (tag == Tag::none) return fallback_call<Tensor>(name.c_str(), "", self);
  return run_new<I>(self, tag);
}

template <size_t I>
Tensor& out_form(const Tensor& self, Tensor& out) {
  static const std::string name = std::string("aten::") + kRows[I].name;
  const Tag tag = compute_tag<I>(self);
  if (tag == Tag::none || out.device() != self.device()) {
    fallback_call<Tensor>(name.c_str(), "out", self, out);
    return out;
  }
  const at::ScalarType expected = kRows[I].result == Result::BOOL ? at::kBool
                                  : promotes(kRows[I], self)      ? result_type<I>(tag)
                                  : real_of_complex<I>(tag)       ? at::kFloat
                                                                  : self.scalar_type();
  if (out.scalar_type() != expected) return write_out(kRows[I].name, run_new<I>(self, tag), out);
  run<I>(self, tag, out);
  return out;
}

template <size_t I>
Tensor& in_place(Tensor& self) {
  TORCH_CHECK(!real_of_complex<I>(tag_of(self)), "In-place ", kRows[I].name, " is not supported for complex tensors.");
  return out_form<I>(self, self);
}

template <size_t I>
void register_row(torch::Library& m) {
  Forms(kRows[I].name, "").add(m, &functional<I>, &in_place<I>, &out_form<I>);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  [&]<size_t... I>(std::index_sequence<I...>) { (register_row<I>(m), ...); }(std::make_index_sequence<kRowCount>());
}

}  // namespace mpsx::ops
