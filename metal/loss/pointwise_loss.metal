// Elementwise losses between an input and a target (mse, smooth_l1, huber, binary cross-entropy), their sums, and their
// gradients. Sums use tiles of a fixed size, so that the result does not depend on the launch.
#include "lib/compute.h"
#include "lib/error.h"
#include "lib/instantiate.h"
#include "lib/collective.h"
#include "lib/vec_loop.h"
#include "loss/params.h"

struct mse {
  static float loss(float x, float t, float) { return (x - t) * (x - t); }
  static float slope(float x, float t, float) { return x - t; }  // p.scale includes the factor 2
};
struct smooth_l1 {
  static float loss(float x, float t, float beta) {
    const float z = fabs(x - t);
    return z < beta ? 0.5f * z * z / beta : z - 0.5f * beta;
  }
  static float slope(float x, float t, float beta) {
    const float d = x - t, inside = d / beta, above = d >= beta ? 1.0f : inside;
    return d <= -beta ? -1.0f : above;
  }
};
struct huber {
  static float loss(float x, float t, float delta) {
    const float z = fabs(x - t);
    return z <= delta ? 0.5f * z * z : delta * (z - 0.5f * delta);
  }
  static float slope(float x, float t, float delta) {
    const float d = x - t, above = d >= delta ? delta : d;
    return d <= -delta ? -delta : above;
  }
};
struct binary_cross_entropy {
  // Clamps a logarithm to at least -100, as PyTorch does. Propagates NaN.
  static float bounded(float v) { return v < -100.0f ? -100.0f : v; }
  static float loss(float x, float t, float) {
    return (t - 1.0f) * bounded(log_one_minus(x)) - t * bounded(log(x));
  }
  static float slope(float x, float t, float) { return (x - t) / max((1.0f - x) * x, 1e-12f); }
  // Returns log(1 - x). To be accurate for small x, computes log(u) * x / (1 - u), where u is 1 - x rounded (Kahan).
  static float log_one_minus(float x) {
    const float u = 1.0f - x;
    return u == 1.0f ? -x : (u <= 0.0f ? log(u) : log(u) * (x / (1.0f - u)));
  }
};

template <typename Op, uint N, typename T>
inline void losses(VecLoop<N, true> d, device T* out, device const T* x, device const T* target,
                   device const T* weight, constant PointwiseLossParams& p) {
  const bool weighted = p.has_weight != 0;
  for (; d.more(); d.next()) {
    const VecBatch<T, N> a = load_vecs(d, x, 1), b = load_vecs(d, target, 1);
    VecBatch<T, N> w = b, y;
    if (weighted) w = load_vecs(d, weight, 1);
    MPSX_UNROLL for (uint i = 0; i < y.count; ++i)
      y.at[i] = T(Op::loss(float(a.at[i]), float(b.at[i]), p.parameter) * (weighted ? float(w.at[i]) : 1.0f));
    store_vecs(d, out, 1, y);
  }
}
template <typename T, typename Op>
kernel void pointwise_loss(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                           device const T* target [[buffer(2)]], device const T* weight [[buffer(3)]],
                           constant PointwiseLossParams& p [[buffer(4)]], MPSX_GRID_PARAMETERS) {
  MPSX_VEC_LOOPS(T, T, uint(p.count), losses<Op>, out, x, target, weight, p);
}

constexpr constant ulong kLossTile = 8192;  // must match kTile in src/ops/loss/pointwise_loss.cpp

// Reports elements outside [0, 1]. Uses the same tiles as pointwise_loss_sum.
template <typename T>
kernel void unit_check(device const T* x [[buffer(0)]], constant PointwiseLossParams& p [[buffer(1)]],
                       constant uint& operand [[buffer(2)]], device ErrorRecord* errors [[buffer(3)]],
                       MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint scratch[kScratch];
  const ulong begin = ulong(g.group.x) * kLossTile;
  const uint n = uint(min(kLossTile, p.count - begin));
  device const T* a = x + begin;
  uint outside = 0;
  MPSX_REDUCE(+ : outside)
  for (uint i = g.index; i < n; i += g.count) {
    const float v = float(a[i]);
    outside += uint(!(v >= 0.0f && v <= 1.0f));
  }
  if (tg_any(outside != 0u, scratch, g) && g.index == 0) report_outside_unit(errors, operand);
}

template <typename T, typename Op>
kernel void pointwise_loss_sum(device float* sums [[buffer(0)]], device const T* x [[buffer(1)]],
                               device const T* target [[buffer(2)]], device const T* weight [[buffer(3)]],
                               constant PointwiseLossParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const ulong begin = ulong(g.group.x) * kLossTile;
  const uint n = uint(min(kLossTile, p.count - begin));
  device const T *a = x + begin, *b = target + begin;
  float sum = 0.0f;
  if (p.has_weight) {
    device const T* w = weight + begin;
    MPSX_REDUCE(+ : sum)
    for (uint i = g.index; i < n; i += g.count)
      sum += Op::loss(float(a[i]), float(b[i]), p.parameter) * float(w[i]);
  } else {
    MPSX_REDUCE(+ : sum)
    for (uint i = g.index; i < n; i += g.count) sum += Op::loss(float(a[i]), float(b[i]), p.parameter);
  }
  sum = tg_sum(sum, scratch, g);
  if (g.index == 0) sums[g.group.x] = sum;
}

template <typename T>
kernel void loss_total(device T* out [[buffer(0)]], device const float* sums [[buffer(1)]],
                       constant uint& n [[buffer(2)]], constant PointwiseLossParams& p [[buffer(3)]],
                       MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  float sum = 0.0f;
  MPSX_REDUCE(+ : sum)
  for (uint i = g.index; i < n; i += g.count) sum += sums[i];
  sum = tg_sum(sum, scratch, g);
  if (g.index == 0) out[0] = T(sum * p.scale);
}

// STEP is the stride of grad_out: 0 if all elements share one gradient, otherwise 1.
template <typename Op, uint STEP, uint N, typename T>
inline void gradients(VecLoop<N, true> d, device T* grad_in, device const T* grad_out, device const T* x,
                      device const T* target, device const T* weight, constant PointwiseLossParams& p) {
  const bool weighted = p.has_weight != 0;
  for (; d.more(); d.next()) {
    const VecBatch<T, N> g = load_vecs(d, grad_out, STEP), a = load_vecs(d, x, 1), b = load_vecs(d, target, 1);
    VecBatch<T, N> w = b, y;
    if (weighted) w = load_vecs(d, weight, 1);
    MPSX_UNROLL for (uint i = 0; i < y.count; ++i) {
      const float slope = Op::slope(float(a.at[i]), float(b.at[i]), p.parameter);
      // Scale before multiplying by the output gradient, so that the same inputs overflow as in PyTorch.
      y.at[i] = T(p.scale * slope * float(g.at[i]) * (weighted ? float(w.at[i]) : 1.0f));
    }
    store_vecs(d, grad_in, 1, y);
  }
}
template <typename T, typename Op, uint STEP>
kernel void pointwise_loss_bwd(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                               device const T* x [[buffer(2)]], device const T* target [[buffer(3)]],
                               device const T* weight [[buffer(4)]], constant PointwiseLossParams& p [[buffer(5)]],
                               MPSX_GRID_PARAMETERS) {
  MPSX_VEC_LOOPS(T, T, uint(p.count), (gradients<Op, STEP>), grad_in, grad_out, x, target, weight, p);
}

#define LOSS(T, TAG, NAME)                                              \
  MPSX_KERNEL(#NAME "_loss_" #TAG, pointwise_loss<T, NAME>)             \
  MPSX_KERNEL(#NAME "_loss_sum_" #TAG, pointwise_loss_sum<T, NAME>)     \
  MPSX_KERNEL(#NAME "_loss_bwd_" #TAG, pointwise_loss_bwd<T, NAME, 1>)        \
  MPSX_KERNEL(#NAME "_loss_bwd_reduced_" #TAG, pointwise_loss_bwd<T, NAME, 0>)
MPSX_FOR_FLOAT(LOSS, mse)
MPSX_FOR_FLOAT(LOSS, smooth_l1)
MPSX_FOR_FLOAT(LOSS, huber)
MPSX_FOR_FLOAT(LOSS, binary_cross_entropy)
#define TOTAL(T, TAG, ...)                             \
  MPSX_KERNEL("loss_total_" #TAG, loss_total<T>)       \
  MPSX_KERNEL("unit_check_" #TAG, unit_check<T>)
MPSX_FOR_FLOAT(TOTAL, )
