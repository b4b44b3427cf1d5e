// Blocked Householder QR: factors panels and computes the triangular factor T of each block of reflectors.
#include "lib/instantiate.h"
#include "linalg/reflector.h"

// Returns the norm of elements [first, end) of x. Intermediate results neither overflow nor underflow.
template <typename T>
inline float column_norm(device const T* x, long stride, uint first, uint end, threadgroup float* scratch,
                         GroupThread g) {
  float sum = 0.0f;
  for (uint i = first + g.index; i < end; i += g.count) sum += squared_modulus(x[long(i) * stride]);
  sum = tg_sum(sum, scratch, g);
  if (sum > 1e-30f && sum < 1e37f) return precise::sqrt(sum);
  float largest = 0.0f;
  for (uint i = first + g.index; i < end; i += g.count) {
    const T value = x[long(i) * stride];
    largest = propagating_max(largest, propagating_max(fabs(real_part(value)), fabs(imaginary_part(value))));
  }
  largest = tg_max(largest, scratch, g);
  if (largest == 0.0f || !isfinite(largest)) return largest;
  sum = 0.0f;
  for (uint i = first + g.index; i < end; i += g.count) sum += squared_modulus(x[long(i) * stride] / largest);
  return largest * precise::sqrt(tg_sum(sum, scratch, g));
}

// Factors a panel of at most kPanel columns in device memory, with one threadgroup per matrix. Each SIMD group
// processes one column at a time: it applies the new reflector to a column on the reflector's right, or computes the
// dot product with a column on its left, from which block_factor builds T.
template <typename T>
kernel void qr_panel(device T* matrices [[buffer(0)]], device T* taus [[buffer(1)]], device T* v [[buffer(2)]],
                     device T* t [[buffer(3)]], constant QrParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const SimdGroup s = sg_position(g);
  threadgroup T gram[kPanel * kTPitch], factor[kPanel * kTPitch], tau[kPanel];
  threadgroup float scratch[kScratch];
  const uint rows = p.rows, columns = p.columns, reflectors = min(rows, columns), batch = g.group.x;
  device T* a = matrices + long(batch) * p.a.batch;
  const long down = p.a.row, across = p.a.column;
  for (uint k = 0; k < reflectors; ++k) {
    device T* x = a + long(k) * across;
    const T alpha = x[long(k) * down];
    const float norm = column_norm(x, down, k + 1, rows, scratch, g);
    const Reflector<T> h = reflector(alpha, norm);
    tg_all_barrier();  // wait until every thread has read alpha
    for (uint i = k + 1 + g.index; i < rows; i += g.count) x[long(i) * down] = product(x[long(i) * down], h.scale);
    if (g.index == 0) {
      x[long(k) * down] = field_number<T>(h.beta, 0.0f);
      tau[k] = h.tau;
      taus[long(batch) * p.tau + k] = h.tau;
    }
    tg_all_barrier();
    for (uint j = s.index; j < columns; j += s.count) {
      device T* y = a + long(j) * across;
      if (j > k) {
        T sum = s.lane == 0 ? y[long(k) * down] : field_number<T>(0.0f, 0.0f);
        for (uint i = k + 1 + s.lane; i < rows; i += s.lanes)
          sum = product_sum(conjugate(x[long(i) * down]), y[long(i) * down], sum);
        const T scaled = product(conjugate(h.tau), sg_sum(sum));
        for (uint i = k + 1 + s.lane; i < rows; i += s.lanes)
          y[long(i) * down] = product_sum(x[long(i) * down], -scaled, y[long(i) * down]);
        if (s.lane == 0) y[long(k) * down] -= scaled;
      } else if (j < k && p.keeps_block) {
        const T sum = inner_product<T>(y, x, down, k + 1, rows, s);
        if (s.lane == 0) gram[j * kTPitch + k] = sum + conjugate(y[long(k) * down]);
      }
    }
    tg_all_barrier();
  }
  if (!p.keeps_block) return;
  device T* own = v + long(batch) * p.v.batch;
  for (uint e = g.index; e < rows * reflectors; e += g.count) {
    const uint i = e % rows, j = e / rows;
    const T below = i > j ? a[long(i) * down + long(j) * across] : field_number<T>(i == j ? 1.0f : 0.0f, 0.0f);
    own[long(i) * p.v.row + long(j) * p.v.column] = below;
  }
  block_factor(factor, gram, tau, reflectors, t + long(batch) * p.t, g);
}

// Computes T for each block of kPanel reflectors from the reflector vectors in v. Grid: (blocks, batch).
template <typename T>
kernel void reflector_block(device T* t [[buffer(0)]], device const T* v [[buffer(1)]],
                            device const T* taus [[buffer(2)]], constant ReflectorParams& p [[buffer(3)]],
                            MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const SimdGroup s = sg_position(g);
  threadgroup T gram[kPanel * kTPitch], factor[kPanel * kTPitch], tau[kPanel];
  const uint block = g.group.x, blocks = (p.columns + kPanel - 1) / kPanel, first = block * kPanel;
  const uint columns = min(uint(kPanel), p.columns - first);
  device const T* a = v + (long(g.group.y) * p.v.batch + long(first) * p.v.column);
  for (uint j = g.index; j < columns; j += g.count) tau[j] = taus[long(g.group.y) * p.tau + first + j];
  for (uint e = s.index; e < columns * columns; e += s.count) {
    const uint i = e / columns, j = e % columns;
    if (i >= j) continue;
    const T sum = inner_product<T>(a + long(i) * p.v.column, a + long(j) * p.v.column, p.v.row, first + j, p.rows, s);
    if (s.lane == 0) gram[i * kTPitch + j] = sum;
  }
  tg_barrier();
  block_factor(factor, gram, tau, columns, t + (ulong(g.group.y) * blocks + block) * (kPanel * kPanel), g);
}

#define MPSX_QR(T, TAG)                        \
  MPSX_KERNEL("qr_panel_" #TAG, qr_panel<T>)   \
  MPSX_KERNEL("reflector_block_" #TAG, reflector_block<T>)
MPSX_QR(float, f32)
MPSX_QR(float2, c64)
