// Kernels for test_convolution2d.py. They use Metal 4's convolution2d. Each threadgroup computes an O x W x H x N tile
// of the destination.
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

struct Sizes {
  int channels, width, height, batch, outputs, out_width, out_height;
  int pad_x, pad_y;
  int pixel;  // distance between consecutive activation pixels, in elements
};

typedef dextents<int32_t, 4> sizes_4d;

template <int O, int W, int H, int N, int C, int KX, int KY, int SX, int SY, int DX, int DY, bool ACCUMULATE>
constexpr convolution2d_descriptor descriptor() {
  return convolution2d_descriptor(int4(O, W, H, N), int4(C, 1 << 14, 1 << 14, N), int2(KX, KY),
                                  convolution2d_activation_layout::nhwc, convolution2d_weights_layout::hwio,
                                  int2(SX, SY), int2(DX, DY), 1, false,
                                  ACCUMULATE ? convolution2d_descriptor::mode::multiply_accumulate
                                             : convolution2d_descriptor::mode::multiply);
}

// Writes the result directly to memory if DIRECT is set. Otherwise, accumulates in a cooperative tensor of type S and
// adds the bias.
template <class A, class B, class S, class T, bool DIRECT, int GROUPS, int O, int W, int H, int N, int C, int KX,
          int KY,
          int SX, int SY, int DX, int DY, bool ACCUMULATE>
kernel void convolve(device A* a, device B* b, device T* c, constant Sizes& s, device float* bias,
                     uint3 group [[threadgroup_position_in_grid]]) {
  constexpr auto what = descriptor<O, W, H, N, C, KX, KY, SX, SY, DX, DY, ACCUMULATE>();
  convolution2d<what, execution_simdgroups<GROUPS>> op;
  const int across = (s.out_width + W - 1) / W;
  const int o = group.x * O, x = group.y % across * W, y = group.y / across * H, n = group.z * N;
  op.set_offsets(int2(x * SX - s.pad_x + ((KX - 1) * DX + 1) / 2, y * SY - s.pad_y + ((KY - 1) * DY + 1) / 2));

  tensor<device A, sizes_4d, tensor_inline> activation(
      a, sizes_4d(s.channels, s.width, s.height, s.batch),
      array<int32_t, 4>{1, s.pixel, s.pixel * s.width, s.pixel * s.width * s.height});
  auto weights = tensor(b, sizes_4d(s.outputs, s.channels, KX, KY));
  auto destination = tensor(c, sizes_4d(s.outputs, s.out_width, s.out_height, s.batch));
  auto from = activation.slice(0, 0, 0, n);
  auto with = weights.slice(o, 0, 0, 0);
  auto to = destination.slice(o, x, y, n);
  if (DIRECT) {
    op.run(from, with, to);
    return;
  }
  auto sum = op.template get_destination_cooperative_tensor<decltype(from), decltype(with), S>();
  if (ACCUMULATE) {
    auto start = op.template get_destination_cooperative_tensor<decltype(from), decltype(with), T>();
    start.load(to);
    for (ushort i = 0; i < sum.get_capacity(); ++i) sum[i] = S(start[i]);
  }
  op.run(from, with, sum);
  for (ushort i = 0; i < sum.get_capacity(); ++i)
    if (sum.is_valid_element(i)) {
      const int output = o + sum.get_multidimensional_index(i)[0];
      if (output < s.outputs) sum[i] += S(bias[output]);
    }
  auto result = op.template get_destination_cooperative_tensor<decltype(from), decltype(with), T>();
  for (ushort i = 0; i < sum.get_capacity(); ++i) result[i] = T(sum[i]);
  result.store(to);
}
