// Launches and registers the operators in compare.def, for tensors and numbers.
#include <torch/library.h>

#include <string_view>
#include <utility>

#include "ops/elementwise/binary.h"

namespace mpsx::ops {
namespace {

struct CompareRow {
  const char* name;
  const char* mirror;
  bool scalars;  // has the overloads "Tensor" and "Scalar", not a single unnamed one
};
constexpr bool SCALAR = true, TENSOR = false;
#define MPSX_COMPARE(NAME, OVERLOADS, MIRROR, ...) CompareRow{#NAME, #MIRROR, OVERLOADS},
constexpr CompareRow kCompare[] = {
#include "elementwise/compare.def"
};

template <size_t I>
const ElementwiseKernels& compare_kernels() {
  static const ElementwiseKernels k(kCompare[I].name, kCompare[I].mirror);
  return k;
}

template <size_t I>
bool compare(const Tensor& a, const Tensor& b, Tensor& out) {
  constexpr BinaryRow row{kCompare[I].name, "", Types::ALL, Promotion::COMPARISON, ElementwiseKernels::Order::FIXED};
  const auto type = binary_compute_type(row, compare_kernels<I>(), a, b);
  return type != at::ScalarType::Undefined &&
         run_binary(row, compare_kernels<I>(), type, a, b, ScalarParams{}, out);
}
template <size_t I>
bool compare_number(const Tensor& a, const at::Scalar& b, Tensor& out) {
  return compare<I>(a, wrapped_number(b), out);
}

template <size_t I>
void register_compare(torch::Library& m) {
  if constexpr (kCompare[I].scalars) {
    op<OperatorName(kCompare[I].name, "Tensor"), &compare<I>>(m);
    op<OperatorName(kCompare[I].name, "Scalar"), &compare_number<I>>(m);
  } else {
    op<OperatorName(kCompare[I].name), &compare<I>>(m);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  [&]<size_t... I>(std::index_sequence<I...>) { (register_compare<I>(m), ...); }
  (std::make_index_sequence<std::size(kCompare)>());
}

}  // namespace mpsx::ops
