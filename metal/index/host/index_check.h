// Checks all indices in a vectorized loop. Only if that loop detects an invalid index does a second loop locate it.
kernel void index_check(device const long* index [[buffer(0)]], constant CheckParams& p [[buffer(1)]],
                        device ErrorRecord* errors [[buffer(2)]], uint tid [[thread_position_in_grid]],
                        uint threads [[threads_per_grid]]) {
  const ulong begin = ulong(tid) * kChecked;
  const uint count = uint(min(p.count - long(begin), long(kChecked)));
  device const long* own = index + begin;
  const long low = p.negative ? -p.size : 0;
  int bad = 0;
  MPSX_REDUCE(| : bad)
  for (uint i = 0; i < count; ++i) bad |= int(own[i] < low) | int(own[i] >= p.size);
  if (!bad) return;
  for (uint i = 0; i < count; ++i)
    if (own[i] < low || own[i] >= p.size) return report_index(errors, p.dimension, own[i], p.size);
}
