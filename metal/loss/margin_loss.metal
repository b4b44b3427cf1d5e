// multi_margin_loss, multilabel_margin_loss, and their gradients. There is one threadgroup per row of classes.
#include "lib/collective.h"
#include "lib/error.h"
#include "lib/instantiate.h"
#include "loss/params.h"

// Returns by how much a class violates the margin: max(0, margin - x[target] + x[class]). `above` is margin -
// x[target]. A NaN, from inf - inf, yields 0.
inline float gap_of(float x, float above) {
  const float gap = above + x;
  return gap > 0.0f ? gap : 0.0f;
}

// Stores the loss of row r in rows[r].
template <typename T>
kernel void multi_margin(device T* rows [[buffer(0)]], device const T* in [[buffer(1)]],
                         device const long* target [[buffer(2)]], device const T* weight [[buffer(3)]],
                         constant MarginParams& p [[buffer(4)]], device ErrorRecord* errors [[buffer(5)]],
                         MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  device const T* x = in + ulong(g.group.x) * p.classes;
  const long named = checked_index(target[g.group.x], long(p.classes), false, 0, errors);
  if (named < 0) return;  // all threads of the threadgroup return
  const uint at = uint(named);
  const float above = p.margin - float(x[at]);
  float sum = 0.0f;
  MPSX_REDUCE(+ : sum)
  for (uint c = g.index; c < p.classes; c += g.count) {
    const float gap = gap_of(float(x[c]), above), part = p.squared ? gap * gap : gap;
    sum += c == at ? 0.0f : part;
  }
  sum = tg_sum(sum, scratch, g);
  const float scale = p.has_weight ? float(weight[at]) * p.scale : p.scale;
  // The result is 0 even if the weight is infinite, where 0 * weight would be NaN.
  if (g.index == 0) rows[g.group.x] = T(sum > 0.0f ? sum * scale : 0.0f);
}

template <typename T>
kernel void multi_margin_bwd(device T* grad_in [[buffer(0)]], device const T* grad [[buffer(1)]],
                             device const T* in [[buffer(2)]], device const long* target [[buffer(3)]],
                             device const T* weight [[buffer(4)]], constant MarginParams& p [[buffer(5)]],
                             device ErrorRecord* errors [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const ulong row = ulong(g.group.x) * p.classes;
  device const T* x = in + row;
  device T* to = grad_in + row;
  const long named = checked_index(target[g.group.x], long(p.classes), false, 0, errors);
  if (named < 0) return;
  const uint at = uint(named);
  const float above = p.margin - float(x[at]);
  const float scale = float(grad[p.reduced ? 0u : g.group.x]) * p.scale * (p.has_weight ? float(weight[at]) : 1.0f);
  float sum = 0.0f;
  MPSX_REDUCE(+ : sum)
  for (uint c = g.index; c < p.classes; c += g.count) {
    const float gap = gap_of(float(x[c]), above), slope = p.squared ? 2.0f * gap : (gap > 0.0f ? 1.0f : 0.0f);
    sum += c == at ? 0.0f : slope;
    to[c] = T(slope > 0.0f ? slope * scale : 0.0f);
  }
  sum = tg_sum(sum, scratch, g);
  tg_device_barrier();
  if (g.index == 0) to[at] = T(sum > 0.0f ? -sum * scale : 0.0f);
}

// Returns the number of targets in a row. The list of targets ends at the first -1.
inline uint label_count(device const long* target, uint classes, threadgroup uint* scratch, GroupThread g) {
  uint count = classes;
  for (uint i = g.index; i < count; i += g.count)
    if (target[i] < 0) count = i;
  return tg_min(count, scratch, g);
}

// Stores in rows[r] the sum of max(0, 1 - x[t] + x[c]) over all targets t and non-target classes c. Sets is_target to 1
// for targets and to 0 for other classes.
template <typename T>
kernel void multilabel_margin(device T* rows [[buffer(0)]], device T* is_target [[buffer(1)]],
                              device const T* in [[buffer(2)]], device const long* targets [[buffer(3)]],
                              constant MarginParams& p [[buffer(4)]], device ErrorRecord* errors [[buffer(5)]],
                              MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  threadgroup uint counts[kScratch];
  const ulong row = ulong(g.group.x) * p.classes;
  device const T* x = in + row;
  device const long* target = targets + row;
  device T* marks = is_target + row;
  const uint count = label_count(target, p.classes, counts, g);
  for (uint c = g.index; c < p.classes; c += g.count) {
    if (target[c] != -1) checked_index(target[c], long(p.classes), false, 0, errors);
    marks[c] = T(0.0f);
  }
  tg_device_barrier();
  for (uint i = g.index; i < count; i += g.count) {
    const long t = checked_index(target[i], long(p.classes), false, 0, errors);
    if (t >= 0) marks[t] = T(1.0f);
  }
  tg_device_barrier();
  float sum = 0.0f;
  for (uint i = 0; i < count; ++i) {
    if (target[i] >= long(p.classes)) continue;
    const float above = 1.0f - float(x[target[i]]);
    MPSX_REDUCE(+ : sum)
    for (uint c = g.index; c < p.classes; c += g.count) {
      const float gap = gap_of(float(x[c]), above);
      sum += float(marks[c]) != 0.0f ? 0.0f : gap;
    }
  }
  sum = tg_sum(sum, scratch, g);
  if (g.index == 0) rows[g.group.x] = T(sum * p.scale);
}

// The gradient of a non-target class is the number of targets whose margin it violates. The gradient of a target is
// minus the number of classes that violate its margin, times the number of times that the target occurs.
template <typename T>
kernel void multilabel_margin_bwd(device T* grad_in [[buffer(0)]], device const T* grad [[buffer(1)]],
                                  device const T* is_target [[buffer(2)]], device const T* in [[buffer(3)]],
                                  device const long* targets [[buffer(4)]], constant MarginParams& p [[buffer(5)]],
                                  device ErrorRecord* errors [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint counts[kScratch];
  const ulong row = ulong(g.group.x) * p.classes;
  device const T* x = in + row;
  device const T* marks = is_target + row;
  device const long* target = targets + row;
  const uint count = label_count(target, p.classes, counts, g);
  const float scale = float(grad[p.reduced ? 0u : g.group.x]) * p.scale;
  for (uint i = g.index; i < count; i += g.count) checked_index(target[i], long(p.classes), false, 0, errors);
  for (uint c = g.index; c < p.classes; c += g.count) {
    const float here = float(x[c]);
    float slope = 0.0f;
    if (float(marks[c]) == 0.0f) {
      for (uint i = 0; i < count; ++i) {
        const long t = target[i];
        if (t < long(p.classes)) slope += 1.0f - float(x[t]) + here > 0.0f ? 1.0f : 0.0f;
      }
    } else {
      float times = 0.0f, violations = 0.0f;
      for (uint i = 0; i < count; ++i) times += target[i] == long(c) ? 1.0f : 0.0f;
      const float above = 1.0f - here;
      MPSX_REDUCE(+ : violations)
      for (uint k = 0; k < p.classes; ++k)
        violations += (float(marks[k]) == 0.0f) & (above + float(x[k]) > 0.0f) ? 1.0f : 0.0f;
      slope = -times * violations;
    }
    grad_in[row + c] = T(slope * scale);
  }
}

MPSX_KERNEL("multi_margin_f32", multi_margin<float>)
MPSX_KERNEL("multi_margin_bwd_f32", multi_margin_bwd<float>)
MPSX_KERNEL("multilabel_margin_f32", multilabel_margin<float>)
MPSX_KERNEL("multilabel_margin_bwd_f32", multilabel_margin_bwd<float>)
