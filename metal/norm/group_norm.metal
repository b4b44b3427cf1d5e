// group_norm, forward and backward. The channels of one group in one image are contiguous and form a row. T: element
// type of the batch. W: type of the weight, the bias, the statistics and their gradients.
#include "norm/batch_norm.h"
#include "norm/normalized.h"

// The weight and bias of a group's channels. A vector may contain elements of two consecutive channels.
template <typename W>
struct ChannelParameters {
  device const W* weight;
  device const W* bias;
  bool has_weight, has_bias;
  uint plane;
  template <uint N>
  struct Raw {
    Pair first, second;
    uint left;  // number of the vector's elements in the first channel
  };
  Pair of_channel(uint c) const { return {has_weight ? float(weight[c]) : 1.0f, has_bias ? float(bias[c]) : 0.0f}; }
  template <uint N>
  Raw<N> load(uint i) const {
    const uint c = i / plane;
    Raw<N> raw;
    raw.left = (c + 1) * plane - i;
    raw.first = raw.second = of_channel(c);
    if (raw.left < N) raw.second = of_channel(c + 1);
    return raw;
  }
  template <uint N>
  Pair at(Raw<N> raw, uint j) const { return j < raw.left ? raw.first : raw.second; }
  Pair scalar(uint i) const { return of_channel(i / plane); }
};

// Each row group processes one channel group of one image.
template <typename T, typename W>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void group_norm(device T* out [[buffer(0)]], device W* means [[buffer(1)]], device W* rstds [[buffer(2)]],
                       device const T* in [[buffer(3)]], device const W* weight [[buffer(4)]],
                       device const W* bias [[buffer(5)]], constant GroupNormParams& p [[buffer(6)]],
                       MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  const RowGroup group = row_group(p.shape.rows, p.shape.row_threads, g);
  if (group.row >= p.shape.rows) return;
  const ulong start = ulong(group.row) * p.shape.size;
  RegisterRow<Loader<T>> row;
  row.open({in + start}, p.shape, group);
  const Normalized f = normalized(row, float(p.shape.size), p.eps, scratch, group, g);
  if (group.index == 0) means[group.row] = W(f.mean), rstds[group.row] = W(f.rstd);
  const uint first = group.row % p.groups * p.channels;
  row.store(out + start,
            ChannelParameters<W>{weight + first, bias + first, p.has_weight != 0, p.has_bias != 0, p.plane}, f);
}

// Stores the sum of the output gradient in partial[0][plane] and the sum of the output gradient times the centered
// input in partial[1][plane]. Each row group processes one plane.
template <typename T, typename W>
kernel void group_norm_bwd_sums(device float* partial [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                device const T* in [[buffer(2)]], device const W* means [[buffer(3)]],
                                constant BatchNormParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  const RowGroup group = row_group(p.planes.rows, p.planes.row_threads, g);
  if (group.row >= p.planes.rows) return;
  const ulong start = ulong(group.row) * p.plane;
  RegisterRow<PairLoader<T>> row;
  row.open({grad_out + start, in + start}, p.planes, group);
  const GradientTimesCentered term = {float(means[group.row / p.group_channels])};
  const float2 sums = rg_reduce<CombineSum>(row.sums(Gradient(), term), scratch, group, g);
  if (group.index > 0) return;
  partial[group.row] = sums.x;
  partial[ulong(p.planes.rows) + group.row] = sums.y;
}

// Computes the gradients of the weight and the bias, summing over images in order.
template <typename W>
kernel void group_norm_bwd_params(device W* grad_weight [[buffer(0)]], device W* grad_bias [[buffer(1)]],
                                  device const float* sums [[buffer(2)]], constant GroupNormParams& p [[buffer(3)]],
                                  uint c [[thread_position_in_grid]]) {
  const ulong channels = ulong(p.groups) * p.channels;
  device const float* dots = sums + p.images * channels;
  float bias = 0.0f, weight = 0.0f;
  for (uint n = 0; n < p.images; ++n) {
    bias += sums[n * channels + c];
    weight += dots[n * channels + c];
  }
  grad_weight[c] = W(weight);
  grad_bias[c] = W(bias);
}

#define GROUP_NORM(T, W, TAGS)                       \
  MPSX_KERNEL("group_norm_" #TAGS, group_norm<T, W>) \
  MPSX_KERNEL("group_norm_bwd_sums_" #TAGS, group_norm_bwd_sums<T, W>)
GROUP_NORM(float, float, f32_f32)
GROUP_NORM(half, half, f16_f16)
GROUP_NORM(half, float, f16_f32)
GROUP_NORM(bfloat, bfloat, bf16_bf16)
GROUP_NORM(bfloat, float, bf16_f32)
#define GROUP_NORM_PARAMS(W, TAG, ...) MPSX_KERNEL("group_norm_bwd_params_" #TAG, group_norm_bwd_params<W>)
MPSX_FOR_FLOAT(GROUP_NORM_PARAMS, )
