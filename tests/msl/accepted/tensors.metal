#include <metal_stdlib>
#include <metal/metal_tensor>
#include <MetalPerformancePrimitives/MPPTensorOpsMatMul2d.h>
#include <MetalPerformancePrimitives/MPPTensorOpsConvolution2d.h>
using namespace metal;
using namespace mpp::tensor_ops;
typedef dextents<int, 2> sizes;
kernel void f(device half* a, device const half* b, device float* c, threadgroup half* t [[threadgroup(0)]],
              uint i [[thread_index_in_threadgroup]]) {
  auto A = tensor(a, sizes(64, 64));
  tensor<device const half, sizes, tensor_inline> B(b, sizes(64, 64), array<int, 2>{1, 64});
  tensor<threadgroup half, extents<int, 16, 32>, tensor_inline> T(t, extents<int, 16, 32>());
  tensor<device const half, sizes, tensor_inline> K = A;
  device half* p = &A[0, 1];
  threadgroup half* q = &T[i, 1];
  auto s = A.slice<32, 16>(0, 16);
  device half* r = &s[0, 0];
  constexpr auto d = matmul2d_descriptor(16, 32, 16, false, false, false, matmul2d_descriptor::mode::multiply_accumulate);
  matmul2d<d, execution_simdgroup> op;
  auto left = op.get_left_input_cooperative_tensor<half, half, float>();
  left.load(A.slice(0, 0));
  auto sum = op.get_destination_cooperative_tensor<decltype(left), decltype(B), float>();
  for (auto it = sum.begin(); it != sum.end(); it++)
    if (sum.is_valid_element(it)) *it = *(sum.begin() + (it - sum.begin())) * 0.0f;
  typedef __tensor_ops_detail::__remove_addrspace_t<decltype(B)> right_type;
  auto other = op.get_destination_cooperative_tensor<__remove_addrspace_t<decltype(left)>, right_type, float>();
  op.run(left, B, sum);
  for (auto it = other.begin(); it != other.end(); ++it) *it = 0.0f;
  op.run(left, B, other);
  sum.store(tensor(c, sizes(32, 16)));
  *p = *r;
  *q = T[0, 0] + K[1, 1];
  constexpr auto w = convolution2d_descriptor(int4(16, 4, 4, 1), int4(-1, 4, 4, 1), int2(3, 3));
  convolution2d<w, execution_simdgroups<1>> conv;
  tensor<device half, dextents<int, 4>, tensor_inline> X(a, dextents<int, 4>(16, 4, 4, 1));
  conv.set_offsets(int2(1, 1));
  auto y = conv.get_destination_cooperative_tensor<decltype(X), decltype(X), float>();
  conv.run(X, X, y);
}
