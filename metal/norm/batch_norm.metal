// batch_norm forward. Merges the statistics from batch_norm_stats.metal into the mean and variance of each channel, and
// then normalizes the batch.
#include "norm/batch_norm.h"

// Merges the statistics of a channel's chunks (or uses the running statistics), updates the running statistics, and
// stores three coefficients per column for (x - mean) * scale + bias. There is one threadgroup per channel. W:
// parameter type.
template <typename W>
kernel void batch_norm_finish(device float* coefficients [[buffer(0)]], device W* save_mean [[buffer(1)]],
                              device W* save_invstd [[buffer(2)]], device W* running_mean [[buffer(3)]],
                              device W* running_var [[buffer(4)]], device const float* partial [[buffer(5)]],
                              device const W* weight [[buffer(6)]], device const W* bias [[buffer(7)]],
                              constant BatchNormParams& p [[buffer(8)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const uint c = g.group.x, slots = p.chunks * p.fold;
  float mean, invstd;
  if (p.train) {
    const ulong quantity = ulong(p.channels) * slots;
    device const float* counts = partial + ulong(c) * slots;
    device const float* means = counts + quantity;
    device const float* roots = means + quantity;
    const float count = float(ulong(p.images) * p.plane), base = slots > 0 && !is_infinite(means[0]) ? means[0] : 0.0f;
    float m2 = 0.0f, scale = 1.0f;
    for (;; scale = kSquareScale) {  // if the squares overflow, repeat with scaled values
      float sum = 0.0f;
      m2 = 0.0f;
      MPSX_REDUCE(+ : sum)
      for (uint i = g.index; i < slots; i += g.count) sum += counts[i] * (means[i] * scale - base * scale);
      mean = base * scale + tg_sum(sum, scratch, g) / count;
      MPSX_REDUCE(+ : m2)
      for (uint i = g.index; i < slots; i += g.count) {
        const float d = means[i] * scale - mean, root = roots[i] * scale;
        m2 += counts[i] * fma(root, root, d * d);
      }
      m2 = tg_sum(m2, scratch, g);
      if (m2 <= FLT_MAX || scale < 1.0f) break;
    }
    const float var = m2 / count;
    mean /= scale;
    invstd = var == 0.0f && p.eps == 0.0f ? 0.0f : scale / precise::sqrt(var + p.eps * scale * scale);
    if (p.has_running && g.index == 0) {
      const float m = p.momentum, unbiased = m2 / (count - 1.0f);
      running_mean[c] = W(m * mean + (1.0f - m) * float(running_mean[c]));
      running_var[c] = W(m * unbiased / scale / scale + (1.0f - m) * float(running_var[c]));
    }
  } else {
    mean = float(running_mean[c]);
    invstd = 1.0f / precise::sqrt(float(running_var[c]) + p.eps);
  }
  if (p.train && g.index == 0) {
    save_mean[c] = W(mean);
    save_invstd[c] = W(invstd);
  }
  const ulong width = ulong(p.channels) * p.fold;
  for (uint f = g.index; f < p.fold; f += g.count) {
    device float* to = coefficients + (ulong(f) * p.channels + c);
    const float weighted = p.has_weight ? invstd * float(weight[c]) : invstd;
    const float shift = p.has_bias ? float(bias[c]) : 0.0f;
    const bool folds = must_fold(mean, weighted);
    to[0] = folds ? 0.0f : mean;
    to[width] = weighted;
    to[2 * width] = folds ? shift - mean * weighted : shift;
  }
}

struct ScaleShift {
  float mean, scale, bias;
  float at(float x, float) const { return fma(x - mean, scale, bias); }
};
// Each row group processes one plane.
template <typename T>
kernel void batch_norm_scale(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                             device const float* coefficients [[buffer(2)]], constant BatchNormParams& p [[buffer(3)]],
                             MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const RowGroup group = row_group(p.planes.rows, p.planes.row_threads, g);
  if (group.row >= p.planes.rows) return;
  const uint channel = group.row % p.channels;
  const ulong start = ulong(group.row) * p.plane;
  RegisterRow<Loader<T>> row;
  row.open({in + start}, p.planes, group);
  const float mean = coefficients[channel], scale = coefficients[p.channels + channel];
  row.store(out + start, NoAux(), ScaleShift{mean, scale, coefficients[2ul * p.channels + channel]});
}

struct ColumnScaleShift {
  threadgroup const float* coefficients;
  float at(Pair x, uint c, uint) const {
    return fma(x.a - coefficients[c], coefficients[kColumnTile + c], coefficients[2 * kColumnTile + c]);
  }
};
template <typename T>
kernel void batch_norm_scale_last(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                                  device const float* coefficients [[buffer(2)]],
                                  constant BatchNormParams& p [[buffer(3)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float tile[3 * kColumnTile];
  const ColumnTile t = column_tile(p, g.group.xy);
  load_coefficients<3>(tile, coefficients, t, g);
  store_tile(out, tile_matrix(in, in, t, ColumnScaleShift{tile}), t, p, g);
}

#define BATCH_NORM(T, TAG, ...)                                \
  MPSX_KERNEL("batch_norm_finish_" #TAG, batch_norm_finish<T>) \
  MPSX_KERNEL("batch_norm_scale_" #TAG, batch_norm_scale<T>)   \
  MPSX_KERNEL("batch_norm_scale_last_" #TAG, batch_norm_scale_last<T>)
MPSX_FOR_FLOAT(BATCH_NORM, )
