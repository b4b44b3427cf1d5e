// Uses separate loops for the minimum and the maximum, because compilers do not vectorize a loop with two reductions.
template <typename T>
kernel void aminmax(device T* low [[buffer(0)]], device T* high [[buffer(1)]], device const T* in [[buffer(2)]],
                    constant AminmaxParams& p [[buffer(3)]], MPSX_GROUP_PARAMETERS) {
  typedef compute_t<T> C;
  typedef key_of_t<C> K;
  const GroupThread g = MPSX_GROUP_THREAD;
  const ulong begin = ulong(g.group.x) * p.each, left = p.count - begin;
  device const T* x = in + begin;
  const uint n = uint(left < p.each ? left : p.each);
  K min_key = MinKey::of(C(x[0]), 0.0f), max_key = MaxKey::of(C(x[0]), 0.0f);
  MPSX_REDUCE(max : min_key)
  for (uint i = 0; i < n; ++i) {
    const K k = MinKey::of(C(x[i]), 0.0f);
    min_key = min_key < k ? k : min_key;
  }
  MPSX_REDUCE(max : max_key)
  for (uint i = 0; i < n; ++i) {
    const K k = MaxKey::of(C(x[i]), 0.0f);
    max_key = max_key < k ? k : max_key;
  }
  low[g.group.x] = T(MinKey::Decode<C>::value(min_key));
  high[g.group.x] = T(MaxKey::Decode<C>::value(max_key));
}
