// On the host driver, a threadgroup is one thread. It alternates between adjacent rows, to use whole cache lines.

template <typename Op, bool VALUE, typename T>
inline void scatter_lines(device T* to, device const long* at, device const T* from, constant ScatterParams& p,
                          uint begin, uint end, uint, uint) {
  // Read the count only once. The compiler must assume that writes to self may change the parameters.
  const uint count = p.count;
  const long size = p.dim_size, self_step = p.step[0], index_step = p.step[1], source_step = p.step[2];
  const long self_pitch = p.stride[0][0], index_pitch = p.stride[1][0], source_pitch = p.stride[2][0];
  const bool negative = p.negative != 0;
  if (index_pitch == 0 && end - begin > 1) {  // all rows use the same index: index_add, index_copy, index_fill
    for (uint k = 0; k < count; ++k) {
      device T* row = to + known_index(at[long(k) * index_step], size, negative) * self_step;
      device const T* own = VALUE ? from : from + long(k) * source_step;
      if (self_pitch == 1 && (VALUE || source_pitch == 1)) {
        MPSX_VECTORIZE
        for (uint i = begin; i < end; ++i) put<Op>(row + i, own[VALUE ? 0 : i]);
      } else {
        for (uint i = begin; i < end; ++i) put<Op>(row + long(i) * self_pitch, own[VALUE ? 0 : long(i) * source_pitch]);
      }
    }
    return;
  }
  const bool along = index_step == 1;  // if the index of a row is contiguous, process one row at a time
  for (uint a = along ? begin : 0; a < (along ? end : count); ++a)
    for (uint b = along ? 0 : begin; b < (along ? count : end); ++b) {
      const long i = along ? a : b, k = along ? b : a;
      const long position = known_index(at[i * index_pitch + k * index_step], size, negative);
      put<Op>(to + (i * self_pitch + position * self_step), from[VALUE ? 0 : i * source_pitch + k * source_step]);
    }
}

// The host driver has a single lane, so no coordination is needed to add in order.
template <typename T>
kernel void scatter_add_rows(device T* self [[buffer(0)]], device const long* index [[buffer(1)]],
                             device const T* source [[buffer(2)]], constant ScatterParams& p [[buffer(3)]],
                             MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  float sums[kScatterSums];
  const uint count = p.count;
  const long size = p.dim_size, source_step = p.step[2];
  const bool negative = p.negative != 0;
  const uint begin = g.group.x * p.rows_per_group, end = min(begin + p.rows_per_group, p.size[0]);
  for (uint x = begin; x < end; ++x) {
    device T* to = self + (row_offset(p, 0, g.group) + long(x) * p.stride[0][0]);
    device const long* at = index + (row_offset(p, 1, g.group) + long(x) * p.stride[1][0]);
    device const T* from = source + (row_offset(p, 2, g.group) + long(x) * p.stride[2][0]);
    MPSX_VECTORIZE
    for (long i = 0; i < size; ++i) sums[i] = float(to[i]);
    for (uint k = 0; k < count; ++k)
      sums[known_index(at[k], size, negative)] += float(from[long(k) * source_step]);
    MPSX_VECTORIZE
    for (long i = 0; i < size; ++i) to[i] = T(sums[i]);
  }
}
