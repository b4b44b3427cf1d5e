// batch_norm backward. Sums, for each channel, the output gradient and the output gradient times the centered input.
// Then computes the gradients of the weight, the bias and the input. T: element type of the batch. W: type of the
// weight, the statistics and their gradients.
#include "norm/batch_norm.h"

template <typename T, typename W>
kernel void batch_norm_bwd_sums(device float* partial [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                device const T* in [[buffer(2)]], device const W* means [[buffer(3)]],
                                constant BatchNormParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  const uint chunk = g.group.x, channel = g.group.y;
  const PlaneChunk s = plane_chunk(p, chunk, channel);
  const RowGroup group = chunk_row_group(p, s, g);
  const float mean = float(means[channel]);
  RegisterRow<PairLoader<T>> row;
  float2 sums = float2(0.0f);
  for (uint n = group.row; n < s.last; n += row_groups(group, g)) {
    const ulong offset = s.offset + (n - s.first) * s.step;
    row.open({grad_out + offset, in + offset}, image_offset(p, s, n), s.length, p.planes.vectorized != 0, group);
    sums += row.sums(Gradient(), GradientTimesCentered{mean});
  }
  sums = tg_sum(sums, scratch, g);
  if (g.index > 0) return;
  device float* to = partial + (ulong(channel) * p.chunks + chunk);
  to[0] = sums.x;
  to[ulong(p.channels) * p.chunks] = sums.y;
}

// q = 0 is the output gradient. q = 1 is the output gradient times the centered input.
struct ColumnGradientSums {
  threadgroup const float* mean;
  float at(Pair v, uint c, uint q) const { return q == 0 ? v.a : v.a * (v.b - mean[c]); }
};
template <typename T, typename W>
kernel void batch_norm_bwd_sums_last(device float* partial [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                     device const T* in [[buffer(2)]], device const W* means [[buffer(3)]],
                                     constant BatchNormParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float mean[kColumnTile], result[2 * kColumnTile], scratch[kColumnThreads * kColumnVector];
  const ColumnTile t = column_tile(p, g.group.xy);
  for (uint c = g.index; c < t.count; c += g.count)
    mean[c] = float(means[ulong(t.span) * p.groups + (t.column + c) % p.channels / p.group_channels]);
  tg_barrier();
  reduce_tile<2>(result, scratch, tile_matrix(grad_out, in, t, ColumnGradientSums{mean}), t, p, g);
  for (uint c = g.index; c < t.count; c += g.count) {
    partial[slot_of(p, t.column + c, g.group.y, 0)] = result[c];
    partial[slot_of(p, t.column + c, g.group.y, 1)] = result[kColumnTile + c];
  }
}

// Stores five coefficients per column. The input gradient is dy * scale - shift - (x - mean) * rstd * slope. `spread`
// is the saved 1 / sqrt(var + eps) in training and the running variance in evaluation. There is one threadgroup per
// channel.
template <typename W>
kernel void batch_norm_bwd_finish(device float* coefficients [[buffer(0)]], device W* grad_weight [[buffer(1)]],
                                  device W* grad_bias [[buffer(2)]], device const float* partial [[buffer(3)]],
                                  device const W* means [[buffer(4)]], device const W* spread [[buffer(5)]],
                                  device const W* weight [[buffer(6)]], constant BatchNormParams& p [[buffer(7)]],
                                  MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const uint c = g.group.x, slots = p.chunks * p.fold;
  device const float* sums = partial + ulong(c) * slots;
  device const float* dots = sums + ulong(p.channels) * slots;
  float sum = 0.0f, dot = 0.0f;
  MPSX_REDUCE(+ : sum, dot)
  for (uint i = g.index; i < slots; i += g.count) {
    sum += sums[i];
    dot += dots[i];
  }
  sum = tg_sum(sum, scratch, g);
  dot = tg_sum(dot, scratch, g);
  const float invstd = p.train ? float(spread[c]) : 1.0f / precise::sqrt(float(spread[c]) + p.eps);
  if (g.index == 0) {
    grad_weight[c] = W(dot * invstd);
    grad_bias[c] = W(sum);
  }
  const float scale = p.has_weight ? invstd * float(weight[c]) : invstd;
  const float share = p.train ? 1.0f / float(ulong(p.images) * p.plane) : 0.0f;
  const ulong width = ulong(p.channels) * p.fold;
  for (uint f = g.index; f < p.fold; f += g.count) {
    device float* to = coefficients + (ulong(f) * p.channels + c);
    to[0] = float(means[c]);
    to[width] = scale;
    to[2 * width] = sum * share * scale;
    to[3 * width] = invstd;
    to[4 * width] = dot * share * invstd * scale;
  }
}

// In evaluation the statistics are constants, so only the term dy * scale remains. dy * scale - shift must not be
// fused, because it must be exactly 0 if there is a single element. rstd and slope are multiplied separately, because
// their product may underflow.
struct InputGradient {
  float mean, scale, shift, rstd, slope;
  bool train;
  float at(Pair v, float) const {
    return train ? (v.a * scale - shift) - (v.b - mean) * rstd * slope : v.a * scale;
  }
};
// Each row group processes one plane.
template <typename T>
kernel void batch_norm_bwd_input(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                 device const T* in [[buffer(2)]], device const float* coefficients [[buffer(3)]],
                                 constant BatchNormParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const RowGroup group = row_group(p.planes.rows, p.planes.row_threads, g);
  if (group.row >= p.planes.rows) return;
  const ulong start = ulong(group.row) * p.plane, channels = p.channels, channel = group.row % p.channels;
  RegisterRow<PairLoader<T>> row;
  row.open({grad_out + start, in + start}, p.planes, group);
  device const float* c = coefficients + channel;
  row.store(grad_in + start, NoAux(),
            InputGradient{c[0], c[channels], c[2 * channels], c[3 * channels], c[4 * channels], p.train != 0});
}

struct ColumnInputGradient {
  threadgroup const float* coefficients;
  bool train;
  float at(Pair v, uint c, uint) const {
    const InputGradient f = {coefficients[c],
                             coefficients[kColumnTile + c],
                             coefficients[2 * kColumnTile + c],
                             coefficients[3 * kColumnTile + c],
                             coefficients[4 * kColumnTile + c],
                             train};
    return f.at(v, 0.0f);
  }
};
template <typename T>
kernel void batch_norm_bwd_input_last(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                      device const T* in [[buffer(2)]], device const float* coefficients [[buffer(3)]],
                                      constant BatchNormParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float tile[5 * kColumnTile];
  const ColumnTile t = column_tile(p, g.group.xy);
  load_coefficients<5>(tile, coefficients, t, g);
  store_tile(grad_in, tile_matrix(grad_out, in, t, ColumnInputGradient{tile, p.train != 0}), t, p, g);
}

#define BATCH_NORM_SUMS(T, W, TAGS)                                    \
  MPSX_KERNEL("batch_norm_bwd_sums_" #TAGS, batch_norm_bwd_sums<T, W>) \
  MPSX_KERNEL("batch_norm_bwd_sums_last_" #TAGS, batch_norm_bwd_sums_last<T, W>)
BATCH_NORM_SUMS(float, float, f32_f32)
BATCH_NORM_SUMS(half, half, f16_f16)
BATCH_NORM_SUMS(half, float, f16_f32)
BATCH_NORM_SUMS(bfloat, bfloat, bf16_bf16)
BATCH_NORM_SUMS(bfloat, float, bf16_f32)

#define BATCH_NORM_BWD(T, TAG, ...)                                    \
  MPSX_KERNEL("batch_norm_bwd_finish_" #TAG, batch_norm_bwd_finish<T>) \
  MPSX_KERNEL("batch_norm_bwd_input_" #TAG, batch_norm_bwd_input<T>)   \
  MPSX_KERNEL("batch_norm_bwd_input_last_" #TAG, batch_norm_bwd_input_last<T>)
MPSX_FOR_FLOAT(BATCH_NORM_BWD, )
