// run_aligned() (metal/lib/tensor_gemm.h): a matmul2d of operands that TMA can load.
#pragma once

namespace mpsx {
// The tag of a tensor that is not empty, and whose address and strides are multiples of 16 bytes.
struct aligned_tag {};
template <class X>
constexpr bool is_aligned = false;
template <class T, class E, class D>
constexpr bool is_aligned<metal::tensor<T, E, D, aligned_tag>> = true;

template <class T, class E, class D>
MPSX_FN metal::tensor<T, E, D, aligned_tag> as_aligned(const metal::tensor<T, E, D>& x) {
  return x;
}
template <class Multiply, class Left, class Right, class Sum>
MPSX_FN void run_aligned(const Multiply& multiply, const Left& left, const Right& right, Sum& sum) {
  auto aligned_left = as_aligned(left);
  auto aligned_right = as_aligned(right);
  multiply.run(aligned_left, aligned_right, sum);
}
}  // namespace mpsx
