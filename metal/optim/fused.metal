// Fused optimizer steps (Adam, AdamW and SGD) that update parameters and state in one pass.
#include "lib/instantiate.h"
#include "lib/math.h"
#include "optim/lists.h"

inline bool has(constant OptimizerParams& s, uint flag) { return (s.flags & flag) != 0u; }

inline float learning_rate(constant OptimizerParams& s, device const uchar* rate) {
  return has(s, kTensorRate) ? *reinterpret_cast<device const float*>(rate) : s.rate;
}
// Returns whether to skip the step because torch.amp.GradScaler found infinite or NaN gradients.
inline bool skipped(constant OptimizerParams& s, device const uchar* found_inf) {
  return has(s, kFoundInf) && *reinterpret_cast<device const float*>(found_inf) == 1.0f;
}
inline float grad_scale(constant OptimizerParams& s, device const uchar* scale) {
  return has(s, kGradScale) ? *reinterpret_cast<device const float*>(scale) : 1.0f;
}

// Per-step constants of Adam (D. Kingma, J. Ba, arXiv:1412.6980, algorithm 1) and AdamW (decoupled weight decay: I.
// Loshchilov, F. Hutter, arXiv:1711.05101).
struct AdamStep {
  float one_minus_beta1, beta2, one_minus_beta2, eps;
  float step_size, correction2;  // step_size = rate / (1 - beta1^t); correction2 = sqrt(1 - beta2^t)
  float decay, shrink;           // decay: gradient += decay * parameter; shrink: parameter *= shrink
  float scale, sign;
};

// Computes 1 - beta^t as -expm1(t * log(beta)). In the first steps, subtracting beta^t from 1 in float would lose most
// of the significant digits.
inline AdamStep adam_step(constant OptimizerParams& s, float t, float rate, float scale, bool decoupled) {
  AdamStep a;
  a.one_minus_beta1 = s.one_minus_beta1;
  a.beta2 = s.beta2;
  a.one_minus_beta2 = s.one_minus_beta2;
  a.eps = s.eps;
  a.step_size = rate / -expm1(t * s.log_beta1);
  a.correction2 = precise::sqrt(-expm1(t * s.log_beta2));
  a.decay = decoupled ? 0.0f : s.weight_decay;
  a.shrink = decoupled ? 1.0f - rate * s.weight_decay : 1.0f;
  a.scale = scale;
  a.sign = has(s, kMaximize) ? -1.0f : 1.0f;
  return a;
}

struct AdamState {
  float param, exp_avg, exp_avg_sq, max_exp_avg_sq;
};

inline AdamState adam_update(AdamState x, float grad, AdamStep a, bool amsgrad) {
  x.param *= a.shrink;
  grad = fma(x.param, a.decay, grad * a.sign);
  x.exp_avg = fma(grad - x.exp_avg, a.one_minus_beta1, x.exp_avg);
  x.exp_avg_sq = fma(x.exp_avg_sq, a.beta2, a.one_minus_beta2 * grad * grad);
  x.max_exp_avg_sq = x.max_exp_avg_sq > x.exp_avg_sq ? x.max_exp_avg_sq : x.exp_avg_sq;
  const float denominator = precise::sqrt(amsgrad ? x.max_exp_avg_sq : x.exp_avg_sq) / a.correction2 + a.eps;
  x.param -= a.step_size * x.exp_avg / denominator;
  return x;
}

// Like PyTorch, also stores the unscaled gradients.
template <uint N, typename T>
inline void unscale(VecLoop<N, false> d, device T* grad, float scale) {
  MPSX_VECTORIZE
  for (; d.more(); d.next()) {
    VecBatch<T, N> g = load_vecs(d, grad, 1);
    MPSX_UNROLL for (uint i = 0; i < g.count; ++i) g.at[i] = T(float(g.at[i]) / scale);
    store_vecs(d, grad, 1, g);
  }
}

template <bool Amsgrad, uint N, typename T>
inline void adam(VecLoop<N, false> d, device T* param, device const T* grad, device T* exp_avg, device T* exp_avg_sq,
                 device T* max_exp_avg_sq, AdamStep a) {
  MPSX_VECTORIZE
  for (; d.more(); d.next()) {
    const VecBatch<T, N> g = load_vecs(d, grad, 1);
    VecBatch<T, N> x = load_vecs(d, param, 1), m = load_vecs(d, exp_avg, 1), v = load_vecs(d, exp_avg_sq, 1);
    VecBatch<T, N> v_max = v;
    if (Amsgrad) v_max = load_vecs(d, max_exp_avg_sq, 1);
    MPSX_UNROLL for (uint i = 0; i < x.count; ++i) {
      const AdamState before = {float(x.at[i]), float(m.at[i]), float(v.at[i]), float(v_max.at[i])};
      const AdamState after = adam_update(before, float(g.at[i]), a, Amsgrad);
      x.at[i] = T(after.param);
      m.at[i] = T(after.exp_avg);
      v.at[i] = T(after.exp_avg_sq);
      v_max.at[i] = T(after.max_exp_avg_sq);
    }
    store_vecs(d, param, 1, x);
    store_vecs(d, exp_avg, 1, m);
    store_vecs(d, exp_avg_sq, 1, v);
    if (Amsgrad) store_vecs(d, max_exp_avg_sq, 1, v_max);
  }
}

// Lists: parameters, gradients, exp_avgs, exp_avg_sqs, steps, and max_exp_avg_sqs if `Amsgrad` is true.
template <typename T, bool Decoupled, bool Amsgrad>
kernel void fused_adam(MPSX_LIST_BUFFERS, constant FusedParams& all [[buffer(30)]], MPSX_LIST_POSITION) {
  constant ListParams& p = all.lists;
  constant OptimizerParams& s = all.step;
  if (skipped(s, b29)) return;
  const ListChunk chunk = list_chunk(p, group);
  const float scale = grad_scale(s, b28);
  const AdamStep a = adam_step(s, MPSX_LIST_VALUE(const float, 4), learning_rate(s, b27), scale, Decoupled);
  device T* param = MPSX_LIST(T, 0);
  device T* grad = MPSX_LIST(T, 1);
  device T* exp_avg = MPSX_LIST(T, 2);
  device T* exp_avg_sq = MPSX_LIST(T, 3);
  device T* max_exp_avg_sq = Amsgrad ? MPSX_LIST(T, 5) : exp_avg_sq;
  if (has(s, kGradScale)) {
    MPSX_GROUP_VEC_LOOPS(T, chunk.count, unscale, grad, scale);
  }
  MPSX_GROUP_VEC_LOOPS(T, chunk.count, adam<Amsgrad>, param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, a);
}

// Per-step constants of SGD. The first step initializes the momentum buffer to the gradient, regardless of dampening.
struct SgdStep {
  float rate, sign, momentum, decay, keep, take;
  bool first;
};

// MOMENTUM is 0 (none), 1 (classical) or 2 (Nesterov).
template <int MOMENTUM, uint N, typename T>
inline void sgd(VecLoop<N, false> d, device T* param, device const T* grad, device T* buffer, SgdStep s) {
  MPSX_VECTORIZE
  for (; d.more(); d.next()) {
    const VecBatch<T, N> gradient = load_vecs(d, grad, 1);
    VecBatch<T, N> x = load_vecs(d, param, 1), b = x;
    if (MOMENTUM) b = load_vecs(d, buffer, 1);
    MPSX_UNROLL for (uint i = 0; i < x.count; ++i) {
      const float value = float(x.at[i]);
      float g = fma(value, s.decay, float(gradient.at[i]) * s.sign);
      if (MOMENTUM) {
        const float before = s.first ? 0.0f : float(b.at[i]);  // the buffer is uninitialized in the first step
        const float next = fma(before, s.keep, g * s.take);
        b.at[i] = T(next);
        g = MOMENTUM == 2 ? fma(next, s.momentum, g) : next;
      }
      x.at[i] = T(value - s.rate * g);
    }
    if (MOMENTUM) store_vecs(d, buffer, 1, b);
    store_vecs(d, param, 1, x);
  }
}

// Lists: parameters, gradients, and momentum buffers if `Momentum` is true (I. Sutskever et al., ICML 2013, in
// PyTorch's formulation).
template <typename T, bool Momentum, bool Nesterov>
kernel void fused_sgd(MPSX_LIST_BUFFERS, constant FusedParams& all [[buffer(30)]], MPSX_LIST_POSITION) {
  constant ListParams& p = all.lists;
  constant OptimizerParams& s = all.step;
  if (skipped(s, b29)) return;
  const ListChunk chunk = list_chunk(p, group);
  const bool first = has(s, kFirstStep);
  const SgdStep step = {learning_rate(s, b27), has(s, kMaximize) ? -1.0f : 1.0f, s.momentum, s.weight_decay,
                        first ? 0.0f : s.momentum, first ? 1.0f : s.one_minus_dampening, first};
  device T* param = MPSX_LIST(T, 0);
  device T* grad = MPSX_LIST(T, 1);
  device T* buffer = Momentum ? MPSX_LIST(T, 2) : param;
  if (has(s, kGradScale)) {
    MPSX_GROUP_VEC_LOOPS(T, chunk.count, unscale, grad, grad_scale(s, b28));
  }
  MPSX_GROUP_VEC_LOOPS(T, chunk.count, sgd<Momentum + Nesterov>, param, grad, buffer, step);
}

#define MPSX_FUSED(T, tag, ...)                                       \
  MPSX_KERNEL("fused_adam_" #tag, fused_adam<T, false, false>)        \
  MPSX_KERNEL("fused_adam_amsgrad_" #tag, fused_adam<T, false, true>) \
  MPSX_KERNEL("fused_adamw_" #tag, fused_adam<T, true, false>)        \
  MPSX_KERNEL("fused_adamw_amsgrad_" #tag, fused_adam<T, true, true>) \
  MPSX_KERNEL("fused_sgd_" #tag, fused_sgd<T, false, false>)          \
  MPSX_KERNEL("fused_sgd_momentum_" #tag, fused_sgd<T, true, false>)  \
  MPSX_KERNEL("fused_sgd_nesterov_" #tag, fused_sgd<T, true, true>)
MPSX_FOR_FLOAT(MPSX_FUSED)
