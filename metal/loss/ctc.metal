// ctc_loss (A. Graves, S. Fernandez, F. Gomez, J. Schmidhuber, "Connectionist temporal classification", ICML 2006). The
// states of a target are its labels, with a blank before each label and after the last one.
#include "lib/collective.h"
#include "loss/ctc_params.h"

struct CtcSequence {
  uint length, states;  // number of input steps; number of states of the target
  device const long* target;
  long stride;
  long blank, classes;

  CtcSequence(device const long* table, device const long* targets, uint b, constant CtcParams& p)
      : length(uint(table[4 * b])), states(2 * uint(table[4 * b + 1]) + 1), target(targets + table[4 * b + 2]),
        stride(table[4 * b + 3]), blank(p.blank), classes(p.classes) {}
  // Returns the label of a state. Treats an invalid label as a blank, because it has already been reported.
  long label(uint state) const {
    if (state % 2 == 0) return blank;
    const long l = target[long(state / 2) * stride];
    return l >= 0 && l < classes ? l : blank;
  }
  // Returns whether a path may skip the blank between two states. This requires that their labels differ.
  bool skips(uint from, uint to) const { return label(from) != label(to); }
};

inline float log_add(float a, float b) {
  const float largest = fmax(a, b);
  return largest == -INFINITY ? -INFINITY
                              : largest + precise::log(precise::exp(a - largest) + precise::exp(b - largest));
}
inline float log_add(float a, float b, float c) {
  const float largest = fmax(fmax(a, b), c);
  if (largest == -INFINITY) return -INFINITY;
  return largest + precise::log(precise::exp(a - largest) + precise::exp(b - largest) + precise::exp(c - largest));
}

// alpha is the log-probability of all paths that reach a state at a step. beta is the log-probability of all paths from
// there to the end. There is one threadgroup per sequence, because a step depends on all states of the previous step.
kernel void ctc_alpha(device float* loss [[buffer(0)]], device float* alpha [[buffer(1)]],
                      device const float* log_probs [[buffer(2)]], device const long* targets [[buffer(3)]],
                      device const long* table [[buffer(4)]], constant CtcParams& p [[buffer(5)]],
                      MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const uint b = g.group.x;
  const CtcSequence q(table, targets, b, p);
  device const float* x = log_probs + long(b) * p.batch_stride;
  device float* row = alpha + ulong(b) * p.steps * p.states;
  for (uint t = 0; t < q.length; ++t) {
    device const float* before = row - p.states;
    for (uint s = g.index; s < p.states; s += g.count) {
      float sum = -INFINITY;
      if (s < q.states) {
        if (t == 0)
          sum = s < 2 ? 0.0f : -INFINITY;
        else
          sum = log_add(before[s], s > 0 ? before[s - 1] : -INFINITY,
                        s > 1 && q.skips(s - 2, s) ? before[s - 2] : -INFINITY);
        sum += x[long(t) * p.step_stride + q.label(s) * p.class_stride];
      }
      row[s] = sum;
    }
    tg_device_barrier();
    row += p.states;
  }
  if (g.index != 0) return;
  if (q.length == 0) {
    loss[b] = q.states == 1 ? 0.0f : INFINITY;
  } else {
    device const float* last = row - p.states;
    loss[b] = -log_add(last[q.states - 1], q.states > 1 ? last[q.states - 2] : -INFINITY);
  }
}

kernel void ctc_beta(device float* beta [[buffer(0)]], device const float* log_probs [[buffer(1)]],
                     device const long* targets [[buffer(2)]], device const long* table [[buffer(3)]],
                     constant CtcParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const uint b = g.group.x;
  const CtcSequence q(table, targets, b, p);
  device const float* x = log_probs + long(b) * p.batch_stride;
  for (uint left = q.length; left > 0; --left) {
    const uint t = left - 1;
    device float* row = beta + (ulong(b) * p.steps + t) * p.states;
    device const float* after = row + p.states;
    for (uint s = g.index; s < q.states; s += g.count) {
      float sum;
      if (left == q.length)
        sum = s + 2 >= q.states ? 0.0f : -INFINITY;
      else
        sum = log_add(after[s], s + 1 < q.states ? after[s + 1] : -INFINITY,
                      s + 2 < q.states && q.skips(s, s + 2) ? after[s + 2] : -INFINITY);
      row[s] = sum + x[long(t) * p.step_stride + q.label(s) * p.class_stride];
    }
    tg_device_barrier();
  }
}

// Computes each class's gradient from the states with that label. `grad` is contiguous. There is one thread per step
// and sequence: gid = (step, sequence).
kernel void ctc_grad(device float* grad [[buffer(0)]], device const float* grad_out [[buffer(1)]],
                     device const float* loss [[buffer(2)]], device const float* alpha [[buffer(3)]],
                     device const float* beta [[buffer(4)]], device const float* log_probs [[buffer(5)]],
                     device const long* targets [[buffer(6)]], device const long* table [[buffer(7)]],
                     constant CtcParams& p [[buffer(8)]], uint3 gid [[thread_position_in_grid]]) {
  const uint t = gid.x, b = gid.y;
  const CtcSequence q(table, targets, b, p);
  device float* to = grad + (ulong(t) * p.batch + b) * p.classes;
  const float total = loss[b], scale = grad_out[b];
  if (t >= q.length || (p.zero_infinity != 0 && total == INFINITY)) {
    for (uint c = 0; c < p.classes; ++c) to[c] = 0.0f;
    return;
  }
  for (uint c = 0; c < p.classes; ++c) to[c] = -INFINITY;
  const ulong row = (ulong(b) * p.steps + t) * p.states;
  for (uint s = 0; s < q.states; ++s) {
    device float* sum = to + q.label(s);
    *sum = log_add(*sum, alpha[row + s] + beta[row + s]);
  }
  device const float* x = log_probs + long(t) * p.step_stride + long(b) * p.batch_stride;
  for (uint c = 0; c < p.classes; ++c) {
    const float own = x[long(c) * p.class_stride];
    to[c] = (precise::exp(own) - precise::exp(to[c] + total - own)) * scale;
  }
}
