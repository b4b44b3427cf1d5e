// Launchers and registration of every operator in compare.def: tensor with tensor, and tensor with number.
#include <torch/library.h>

#include <string_view>
#include <utility>

#include "ops/elementwise/binary.h"
#include "ops/schema.h"

namespace mpsx::ops {
namespace {

struct CompareRow {
  const char* name;
  bool scalars;  // overloads "Tensor" and "Scalar"; else one, unnamed
};
constexpr bool SCALAR = true, TENSOR = false;
#define MPSX_COMPARE(NAME, OVERLOADS, ...) CompareRow{#NAME, OVERLOADS},
constexpr CompareRow kCompareRows[] = {
#include "elementwise/compare.def"
};
constexpr size_t kCompareCount = std::size(kCompareRows);

constexpr const char* mirror_of(std::string_view name) {
  return name == "lt" ? "gt" : name == "gt" ? "lt" : name == "le" ? "ge" : name == "ge" ? "le" : "";
}

template <size_t I>
constexpr BinaryRow kBinary{kCompareRows[I].name, kCompareRows[I].scalars ? "Tensor" : "", Types::ALL,
                            Promotion::COMPARISON, ElementwiseKernels::Order::swaps};

template <size_t I>
const ElementwiseKernels& compare_kernels() {
  constexpr const char* mirror = mirror_of(kCompareRows[I].name);
  if constexpr (std::string_view(mirror).empty()) {
    static const ElementwiseKernels k(kCompareRows[I].name, 2, ElementwiseKernels::Order::swaps);
    return k;
  } else {
    static const ElementwiseKernels other(mirror, 2);
    static const ElementwiseKernels k(kCompareRows[I].name, &other);
    return k;
  }
}
template <size_t I>
const Forms& compare_forms(bool scalar) {
  static const Forms tensors(kCompareRows[I].name, kCompareRows[I].scalars ? "Tensor" : ""),
      numbers(kCompareRows[I].name, "Scalar");
  return scalar ? numbers : tensors;
}

Tensor operand(const Tensor& t) { return t; }
Tensor operand(const at::Scalar& s) { return wrapped_number(s); }
template <typename Other>
constexpr bool is_number = std::is_same_v<Other, at::Scalar>;

template <size_t I, typename Other>
Tensor compare(const Tensor& a, const Other& other) {
  const Tensor b = operand(other);
  const auto type = binary_compute_type(kBinary<I>, a, b);
  const Forms& f = compare_forms<I>(is_number<Other>);
  if (type == at::ScalarType::Undefined) return fallback_call<Tensor>(f.op.c_str(), f.overload.c_str(), a, other);
  return run_binary(kBinary<I>, compare_kernels<I>(), type, a, b, ScalarParams{}, Tensor());
}
template <size_t I, typename Other>
Tensor& compare_in_place(Tensor& self, const Other& other) {
  const Tensor b = operand(other);
  const auto type = binary_compute_type(kBinary<I>, self, b);
  const Forms& f = compare_forms<I>(is_number<Other>);
  if (type == at::ScalarType::Undefined || self.device().is_cpu()) {
    fallback_call<Tensor>(f.in_place.c_str(), f.overload.c_str(), self, other);
    return self;
  }
  return run_binary_out(kBinary<I>, compare_kernels<I>(), type, self, b, ScalarParams{}, self);
}
template <size_t I, typename Other>
Tensor& compare_out(const Tensor& a, const Other& other, Tensor& out) {
  const Tensor b = operand(other);
  const auto type = binary_compute_type(kBinary<I>, a, b);
  const Forms& f = compare_forms<I>(is_number<Other>);
  if (type == at::ScalarType::Undefined || out.device().is_cpu()) {
    fallback_call<Tensor>(f.op.c_str(), f.out.c_str(), a, other, out);
    return out;
  }
  return run_binary_out(kBinary<I>, compare_kernels<I>(), type, a, b, ScalarParams{}, out);
}

template <size_t I>
void register_comparison(torch::Library& m) {
  compare_forms<I>(false).add(m, &compare<I, Tensor>, &compare_in_place<I, Tensor>, &compare_out<I, Tensor>);
  if constexpr (kCompareRows[I].scalars)
    compare_forms<I>(true).add(m, &compare<I, at::Scalar>, &compare_in_place<I, at::Scalar>,
                               &compare_out<I, at::Scalar>);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    (register_comparison<I>(m), ...);
  }(std::make_index_sequence<kCompareCount>());
}

}  // namespace mpsx::ops
