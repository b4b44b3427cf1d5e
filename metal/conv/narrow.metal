// Direct convolution with at most four output channels, such as the last layer of a model that generates images, or the
// gradient of an image. Tiles of a GEMM would be nearly empty. Only for float32: even with such tiles, tensor cores
// multiply 16-bit elements faster.
#include "conv/divide.h"
#include "conv/narrow_params.h"
#include "lib/instantiate.h"
#include "lib/threadgroup.h"

// Loads adjacent elements of a column, from row `first` on. Elements outside the image are zero.
template <uint COUNT>
METAL_FUNC void load_column(thread float* values, device const float* column, int first, uint height, long row_stride) {
  if (first >= 0 && first + int(COUNT) <= int(height)) {
    device const float* const from = column + long(first) * row_stride;
    MPSX_UNROLL
    for (uint i = 0; i < COUNT; ++i) values[i] = from[long(i) * row_stride];
    return;
  }
  MPSX_UNROLL
  for (uint i = 0; i < COUNT; ++i) {
    const uint row = uint(first) + i;  // above the image, a large number
    values[i] = row < height ? column[long(row) * row_stride] : 0.0f;
  }
}

// Copies the weights of `count` slices to threadgroup memory, column by column.
template <uint OUTPUTS>
METAL_FUNC void load_taps(threadgroup float4* to, device const float* weight, uint first_slice, uint count,
                          constant ConvNarrowPart& part, constant ConvNarrowParams& p, GroupThread g) {
  const uint height = part.taps[1], taps = height * part.taps[2];
  for (uint i = g.index; i < count * taps; i += g.count) {
    const uint slice = first_slice + i / taps, tap = i % taps, channel = slice / part.taps[0];
    device const float* const from =
        weight + (long(channel) * p.weight_channel + long(slice - channel * part.taps[0]) * part.tap_stride[0] +
                  long(tap % height) * part.tap_stride[1] + long(tap / height) * part.tap_stride[2]);
    float4 values = float4(0);
    MPSX_UNROLL
    for (uint o = 0; o < OUTPUTS; ++o) values[o] = from[long(o) * p.weight_output];
    to[i] = values;
  }
}

// Each thread computes kNarrowRows adjacent outputs of one column, for all channels. Grid: (parts x threadgroups of
// columns, planes, images)
template <uint OUTPUTS>
kernel void conv_narrow(device float* out [[buffer(0)]], device const float* source [[buffer(1)]],
                        device const float* weight [[buffer(2)]], device const float* bias [[buffer(3)]],
                        constant ConvNarrowParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float4 taps[kNarrowTaps];
  constant ConvNarrowPart& part = p.parts[g.group.x % p.part_count];
  const uint width = part.positions[2], height = part.positions[1], z = g.group.y;
  if (z >= part.positions[0]) return;
  const uint n = g.group.x / p.part_count * kNarrowThreads + g.index;
  const uint strip = divide(n, part.by_width), x = n - strip * width, y = strip * kNarrowRows;
  const int first_row = int(y) - part.padding[1], first_column = int(x) * p.stride[2] - part.padding[2];
  const uint slices = p.channels * part.taps[0], plane = part.taps[1] * part.taps[2], most = kNarrowTaps / plane;
  source += long(g.group.z) * p.image_stride;
  float sums[OUTPUTS][kNarrowRows];
  MPSX_UNROLL
  for (uint o = 0; o < OUTPUTS; ++o) {
    const float initial = p.has_bias ? bias[o] : 0.0f;
    MPSX_UNROLL
    for (uint r = 0; r < kNarrowRows; ++r) sums[o][r] = initial;
  }
  for (uint first = 0; first < slices; first += most) {
    const uint count = min(most, slices - first);
    tg_barrier();
    load_taps<OUTPUTS>(taps, weight + part.weight, first, count, part, p, g);
    tg_barrier();
    if (y >= height) continue;
    for (uint s = 0; s < count; ++s) {
      const uint channel = (first + s) / part.taps[0], tap = first + s - channel * part.taps[0];
      const int from_z = int(z) * p.stride[0] + int(tap * part.tap_step[0]) - part.padding[0];
      if (uint(from_z) >= p.source[0]) continue;
      device const float* const image = source + (long(channel) * p.channel_stride + long(from_z) * p.source_stride[0]);
      for (uint tx = 0; tx < part.taps[2]; ++tx) {
        const int from_x = first_column + int(tx * part.tap_step[2]);
        if (uint(from_x) >= p.source[2]) continue;
        for (uint ty = 0; ty < part.taps[1]; ty += kNarrowTapBlock) {
          enum : uint { kValues = kNarrowRows + kNarrowTapBlock - 1 };
          float values[kValues];
          load_column<kValues>(values, image + long(from_x) * p.source_stride[2], first_row + int(ty), p.source[1],
                               p.source_stride[1]);
          threadgroup const float4* const weights = taps + (s * plane + tx * part.taps[1] + ty);
          MPSX_UNROLL
          for (uint t = 0; t < kNarrowTapBlock; ++t) {
            if (ty + t >= part.taps[1]) break;
            const float4 w = weights[t];
            MPSX_UNROLL
            for (uint o = 0; o < OUTPUTS; ++o) {
              MPSX_UNROLL
              for (uint r = 0; r < kNarrowRows; ++r) sums[o][r] = fma(w[o], values[r + t], sums[o][r]);
            }
          }
        }
      }
    }
  }
  if (y >= height) return;
  out += part.out + long(g.group.z) * p.out_image + long(z) * p.out_stride[0] + long(y) * p.out_stride[1] +
         long(x) * p.out_stride[2];
  MPSX_UNROLL
  for (uint o = 0; o < OUTPUTS; ++o) {
    MPSX_UNROLL
    for (uint r = 0; r < kNarrowRows; ++r)
      if (y + r < height) out[long(o) * p.out_channel + long(r) * p.out_stride[1]] = sums[o][r];
  }
}

MPSX_KERNEL("conv_narrow_1_f32", conv_narrow<1>)
MPSX_KERNEL("conv_narrow_2_f32", conv_narrow<2>)
MPSX_KERNEL("conv_narrow_3_f32", conv_narrow<3>)
MPSX_KERNEL("conv_narrow_4_f32", conv_narrow<4>)
