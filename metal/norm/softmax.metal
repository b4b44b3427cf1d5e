// softmax, log_softmax and their gradients: along rows, and along a dimension with others inside it.
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "lib/collective.h"
#include "lib/math.h"
#include "norm/params.h"

// The largest element of a row in every thread, as float; NaN if there is one.
template <typename T>
inline float row_max(device const T* x, uint n, threadgroup int* scratch, GroupThread g) {
  int key = INT_MIN;
  MPSX_REDUCE(max : key)
  for (uint i = g.index; i < n; i += g.count) {
    const int k = ordered_max(float(x[i]));
    key = key < k ? k : key;
  }
  return value_of_max(tg_max(key, scratch, g));
}

// The sum of exp(x - top) of a row, in every thread. It is taken over kSumBlock elements at a time, so that the error
// of a long row grows slowly where a threadgroup has few threads.
enum : uint { kSumBlock = 8192 };
template <typename T>
inline float row_exp_sum(device const T* x, uint n, float top, threadgroup float* scratch, GroupThread g) {
  float sum = 0.0f;
  for (uint first = 0; first < n;) {
    const uint last = first + min(uint(kSumBlock), n - first);
    float part = 0.0f;
    MPSX_REDUCE(+ : part)
    for (uint i = first + g.index; i < last; i += g.count) part += exp_nonpositive(float(x[i]) - top);
    sum += part;
    first = last;
  }
  return tg_sum(sum, scratch, g);
}

// A row of -inf has no largest element to subtract: NaN then comes out, as in PyTorch.
template <typename T, typename O>
kernel void softmax_rows(device O* out [[buffer(0)]], device const T* in [[buffer(1)]],
                         constant SoftmaxParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup int keys[kScratch];
  threadgroup float sums[kScratch];
  const ulong row = ulong(g.group.x) * p.size;
  device const T* x = in + row;
  device O* y = out + row;
  const uint n = p.size;
  const float top = row_max(x, n, keys, g);
  const float scale = 1.0f / row_exp_sum(x, n, top, sums, g);
  MPSX_VECTORIZE
  for (uint i = g.index; i < n; i += g.count) y[i] = O(exp_nonpositive(float(x[i]) - top) * scale);
}

template <typename T, typename O>
kernel void log_softmax_rows(device O* out [[buffer(0)]], device const T* in [[buffer(1)]],
                             constant SoftmaxParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup int keys[kScratch];
  threadgroup float sums[kScratch];
  const ulong row = ulong(g.group.x) * p.size;
  device const T* x = in + row;
  device O* y = out + row;
  const uint n = p.size;
  const float top = row_max(x, n, keys, g);
  const float rest = precise::log(row_exp_sum(x, n, top, sums, g));
  MPSX_VECTORIZE
  for (uint i = g.index; i < n; i += g.count) y[i] = O(float(x[i]) - top - rest);
}

// dx = y * (dy - sum(dy * y)). Y: the type of the result and its gradient, O: of the input's gradient.
template <typename Y, typename O>
kernel void softmax_backward_rows(device O* out [[buffer(0)]], device const Y* grad [[buffer(1)]],
                                  device const Y* result [[buffer(2)]], constant SoftmaxParams& p [[buffer(3)]],
                                  MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float sums[kScratch];
  const ulong row = ulong(g.group.x) * p.size;
  device const Y* dy = grad + row;
  device const Y* y = result + row;
  device O* dx = out + row;
  const uint n = p.size;
  float sum = 0.0f;
  MPSX_REDUCE(+ : sum)
  for (uint i = g.index; i < n; i += g.count) sum += float(dy[i]) * float(y[i]);
  sum = tg_sum(sum, sums, g);
  MPSX_VECTORIZE
  for (uint i = g.index; i < n; i += g.count) dx[i] = O(float(y[i]) * (float(dy[i]) - sum));
}

// dx = dy - exp(y) * sum(dy).
template <typename Y, typename O>
kernel void log_softmax_backward_rows(device O* out [[buffer(0)]], device const Y* grad [[buffer(1)]],
                                      device const Y* result [[buffer(2)]], constant SoftmaxParams& p [[buffer(3)]],
                                      MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float sums[kScratch];
  const ulong row = ulong(g.group.x) * p.size;
  device const Y* dy = grad + row;
  device const Y* y = result + row;
  device O* dx = out + row;
  const uint n = p.size;
  float sum = 0.0f;
  MPSX_REDUCE(+ : sum)
  for (uint i = g.index; i < n; i += g.count) sum += float(dy[i]);
  sum = tg_sum(sum, sums, g);
  MPSX_VECTORIZE
  for (uint i = g.index; i < n; i += g.count) dx[i] = O(float(dy[i]) - exp_nonpositive(float(y[i])) * sum);
}

// A threadgroup owns p.block adjacent columns of one block [size, inner]; each thread has columns of its own.
struct Columns {
  ulong base;  // of the first column
  uint count;
};
inline Columns columns_of(constant SoftmaxParams& p, uint3 group) {
  const uint first = group.x * p.block;
  return {ulong(group.y) * p.size * p.inner + first, min(p.block, p.inner - first)};
}

// Sums are taken over kSumLines lines at a time, so that their error grows slowly.
enum : uint { kSumLines = 64 };

template <typename T>
inline void column_statistics(device const T* x, constant SoftmaxParams& p, Columns c, threadgroup int* key,
                              threadgroup float* top, threadgroup float* part, threadgroup float* sum, GroupThread g) {
  for (uint i = g.index; i < c.count; i += g.count) key[i] = INT_MIN;
  for (uint k = 0; k < p.size; ++k) {
    device const T* row = x + (c.base + ulong(k) * p.inner);
    MPSX_VECTORIZE
    for (uint i = g.index; i < c.count; i += g.count) {
      const int candidate = ordered_max(float(row[i]));
      key[i] = key[i] < candidate ? candidate : key[i];
    }
  }
  for (uint i = g.index; i < c.count; i += g.count) top[i] = value_of_max(key[i]), sum[i] = 0.0f;
  for (uint first = 0; first < p.size; first += kSumLines) {
    for (uint i = g.index; i < c.count; i += g.count) part[i] = 0.0f;
    for (uint k = first, last = min(first + kSumLines, p.size); k < last; ++k) {
      device const T* row = x + (c.base + ulong(k) * p.inner);
      MPSX_VECTORIZE
      for (uint i = g.index; i < c.count; i += g.count) part[i] += exp_nonpositive(float(row[i]) - top[i]);
    }
    for (uint i = g.index; i < c.count; i += g.count) sum[i] += part[i];
  }
}

template <typename T, typename O>
kernel void softmax_columns(device O* out [[buffer(0)]], device const T* x [[buffer(1)]],
                            constant SoftmaxParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup int key[kSoftmaxColumns];
  threadgroup float top[kSoftmaxColumns], part[kSoftmaxColumns], sum[kSoftmaxColumns];
  const Columns c = columns_of(p, g.group);
  column_statistics(x, p, c, key, top, part, sum, g);
  for (uint i = g.index; i < c.count; i += g.count) sum[i] = 1.0f / sum[i];
  for (uint k = 0; k < p.size; ++k) {
    device const T* row = x + (c.base + ulong(k) * p.inner);
    device O* y = out + (c.base + ulong(k) * p.inner);
    MPSX_VECTORIZE
    for (uint i = g.index; i < c.count; i += g.count) y[i] = O(exp_nonpositive(float(row[i]) - top[i]) * sum[i]);
  }
}

template <typename T, typename O>
kernel void log_softmax_columns(device O* out [[buffer(0)]], device const T* x [[buffer(1)]],
                                constant SoftmaxParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup int key[kSoftmaxColumns];
  threadgroup float top[kSoftmaxColumns], part[kSoftmaxColumns], sum[kSoftmaxColumns];
  const Columns c = columns_of(p, g.group);
  column_statistics(x, p, c, key, top, part, sum, g);
  for (uint i = g.index; i < c.count; i += g.count) sum[i] = precise::log(sum[i]);
  for (uint k = 0; k < p.size; ++k) {
    device const T* row = x + (c.base + ulong(k) * p.inner);
    device O* y = out + (c.base + ulong(k) * p.inner);
    MPSX_VECTORIZE
    for (uint i = g.index; i < c.count; i += g.count) y[i] = O(float(row[i]) - top[i] - sum[i]);
  }
}

template <typename Y, typename O>
kernel void softmax_backward_columns(device O* out [[buffer(0)]], device const Y* grad [[buffer(1)]],
                                     device const Y* result [[buffer(2)]], constant SoftmaxParams& p [[buffer(3)]],
                                     MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float sum[kSoftmaxColumns];
  const Columns c = columns_of(p, g.group);
  for (uint i = g.index; i < c.count; i += g.count) sum[i] = 0.0f;
  for (uint k = 0; k < p.size; ++k) {
    device const Y* dy = grad + (c.base + ulong(k) * p.inner);
    device const Y* y = result + (c.base + ulong(k) * p.inner);
    MPSX_VECTORIZE
    for (uint i = g.index; i < c.count; i += g.count) sum[i] += float(dy[i]) * float(y[i]);
  }
  for (uint k = 0; k < p.size; ++k) {
    device const Y* dy = grad + (c.base + ulong(k) * p.inner);
    device const Y* y = result + (c.base + ulong(k) * p.inner);
    device O* dx = out + (c.base + ulong(k) * p.inner);
    MPSX_VECTORIZE
    for (uint i = g.index; i < c.count; i += g.count) dx[i] = O(float(y[i]) * (float(dy[i]) - sum[i]));
  }
}

template <typename Y, typename O>
kernel void log_softmax_backward_columns(device O* out [[buffer(0)]], device const Y* grad [[buffer(1)]],
                                         device const Y* result [[buffer(2)]], constant SoftmaxParams& p [[buffer(3)]],
                                         MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float sum[kSoftmaxColumns];
  const Columns c = columns_of(p, g.group);
  for (uint i = g.index; i < c.count; i += g.count) sum[i] = 0.0f;
  for (uint k = 0; k < p.size; ++k) {
    device const Y* dy = grad + (c.base + ulong(k) * p.inner);
    MPSX_VECTORIZE
    for (uint i = g.index; i < c.count; i += g.count) sum[i] += float(dy[i]);
  }
  for (uint k = 0; k < p.size; ++k) {
    device const Y* dy = grad + (c.base + ulong(k) * p.inner);
    device const Y* y = result + (c.base + ulong(k) * p.inner);
    device O* dx = out + (c.base + ulong(k) * p.inner);
    MPSX_VECTORIZE
    for (uint i = g.index; i < c.count; i += g.count) dx[i] = O(float(dy[i]) - exp_nonpositive(float(y[i])) * sum[i]);
  }
}

// IN and OUT: forward, of the input and the result; backward, of the result and the input's gradient.
#define MPSX_SOFTMAX(NAMES, BACKWARD_NAMES, T, O)                                            \
  MPSX_KERNEL("softmax_rows_" NAMES, softmax_rows<T, O>)                                     \
  MPSX_KERNEL("softmax_columns_" NAMES, softmax_columns<T, O>)                               \
  MPSX_KERNEL("log_softmax_rows_" NAMES, log_softmax_rows<T, O>)                             \
  MPSX_KERNEL("log_softmax_columns_" NAMES, log_softmax_columns<T, O>)                       \
  MPSX_KERNEL("softmax_backward_rows_" BACKWARD_NAMES, softmax_backward_rows<O, T>)          \
  MPSX_KERNEL("softmax_backward_columns_" BACKWARD_NAMES, softmax_backward_columns<O, T>)    \
  MPSX_KERNEL("log_softmax_backward_rows_" BACKWARD_NAMES, log_softmax_backward_rows<O, T>)  \
  MPSX_KERNEL("log_softmax_backward_columns_" BACKWARD_NAMES, log_softmax_backward_columns<O, T>)
MPSX_SOFTMAX("f32", "f32", float, float)
MPSX_SOFTMAX("f16", "f16", half, half)
MPSX_SOFTMAX("bf16", "bf16", bfloat, bfloat)
MPSX_SOFTMAX("f16_f32", "f32_f16", half, float)
MPSX_SOFTMAX("bf16_f32", "f32_bf16", bfloat, float)
