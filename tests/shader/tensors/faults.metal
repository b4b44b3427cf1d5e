// Kernels for test_tensor_faults.py that misuse tensor operations.
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

typedef dextents<int, 2> sizes_2d;

// Calls run() in every thread except `absent`. The left operand has `rows` rows.
template <class Scope>
kernel void product(device half* a, device half* b, device float* c, constant int2& s,
                    uint i [[thread_index_in_threadgroup]]) {
  constexpr auto what = matmul2d_descriptor(32, 32, 16);
  matmul2d<what, Scope> op;
  auto A = tensor(a, sizes_2d(16, s.y));
  auto B = tensor(b, sizes_2d(32, 16));
  auto C = tensor(c, sizes_2d(32, 32));
  if (int(i) != s.x) op.run(A, B, C);  // fault: product
}
template [[host_name("thread")]] kernel decltype(product<execution_thread>) product<execution_thread>;
template [[host_name("simdgroup")]] kernel decltype(product<execution_simdgroup>) product<execution_simdgroup>;
template [[host_name("simdgroups")]] kernel decltype(product<execution_simdgroups<2>>) product<execution_simdgroups<2>>;

template <convolution2d_descriptor::mode MODE>
kernel void window(device half* a, device half* b, device float* c, constant int2& s,
                   uint i [[thread_index_in_threadgroup]]) {
  constexpr auto what = convolution2d_descriptor(
      int4(32, 4, 4, 1), int4(16, 4, 4, 1), int2(1, 1), convolution2d_activation_layout::nhwc,
      convolution2d_weights_layout::hwio, int2(1, 1), int2(1, 1), 1, false, MODE);
  convolution2d<what, execution_simdgroups<2>> op;
  auto A = tensor(a, dextents<int, 4>(16, 4, s.y, 1));
  auto B = tensor(b, dextents<int, 4>(32, 16, 1, 1));
  auto C = tensor(c, dextents<int, 4>(32, 4, 4, 1));
  if (int(i) != s.x) op.run(A, B, C);  // fault: window
}
typedef convolution2d_descriptor::mode mode;
template [[host_name("window")]] kernel decltype(window<mode::multiply>) window<mode::multiply>;
template [[host_name("window_sum")]]
kernel decltype(window<mode::multiply_accumulate>) window<mode::multiply_accumulate>;

// Stores each element at its index within the thread, which makes the result depend on the layout.
template <int M, int N>
kernel void layout(device float* in, device float* out, uint i [[thread_index_in_threadgroup]]) {
  constexpr auto what = matmul2d_descriptor(M, N, 16);
  matmul2d<what, execution_simdgroup> op;
  typedef tensor<device half, sizes_2d, tensor_inline> operand;
  auto x = op.template get_destination_cooperative_tensor<operand, operand, float>();
  x.load(tensor(in, sizes_2d(N, M)));
  for (ushort k = 0; k < x.get_capacity(); ++k) out[i * x.get_capacity() + k] = x[k];
}
kernel void past_capacity(device float* in, device float* out, constant int2& s, uint i [[thread_position_in_grid]]) {
  constexpr auto what = matmul2d_descriptor(32, 32, 16);
  matmul2d<what, execution_simdgroup> op;
  typedef tensor<device half, sizes_2d, tensor_inline> operand;
  auto x = op.get_destination_cooperative_tensor<operand, operand, float>();
  x.load(tensor(in, sizes_2d(32, 32)));
  out[i] = x[x.get_capacity() + s.x];  // fault: past_capacity
}
template [[host_name("open")]] kernel decltype(layout<8, 128>) layout<8, 128>;
template [[host_name("fragments")]] kernel decltype(layout<32, 64>) layout<32, 64>;
template [[host_name("many_fragments")]] kernel decltype(layout<16, 96>) layout<16, 96>;
