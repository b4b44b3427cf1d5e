// A single thread keeps the selected elements sorted and compares each new element with the last one of them.
template <typename T>
inline bool select_few(device T* values, device long* indices, device const T* x, constant SelectParams& p,
                       GroupThread) {
  typedef sort_key_t<T> K;
  const uint n = p.size, count = p.count, order = p.order;
  if (count > kTiny && n > kRanked) return false;
  K keys[kRanked];
  uint from[kRanked], found = 0;
  for (uint i = 0; i < n; ++i) {
    const K key = key_in_order(x[i], order);
    if (found == count && key >= keys[count - 1]) continue;
    uint at = found < count ? found++ : count - 1;
    for (; at > 0 && keys[at - 1] > key; --at) {
      keys[at] = keys[at - 1];
      from[at] = from[at - 1];
    }
    keys[at] = key;
    from[at] = i;
  }
  for (uint i = 0; i < count; ++i) {
    values[i] = x[from[i]];
    indices[i] = long(from[i]);
  }
  return true;
}
