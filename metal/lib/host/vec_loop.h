// A vector is one element: the compiler vectorizes the loop around it.
template <typename T, typename R = T>
constexpr constant uint vec_size = 1;
template <uint N>
constexpr constant uint batch = 1;

// In a grid, which has a thread per element, each thread takes one element; the only thread of a threadgroup takes all.
template <uint N, bool GRID>
struct VecLoop {
  ulong at, step, end;  // a 16-byte struct would be passed as two words, which hides the induction variable
  bool fresh;
  VecLoop(uint index, uint threads, uint begin, uint past)
      : at(begin + index), step(threads), end(past), fresh(true) {}
  bool more() const { return GRID ? fresh : at < end; }
  void next() {
    fresh = false;
    at += step;
  }
  uint vec_offset(uint) const { return uint(at); }
  uint position(uint) const { return uint(at); }
};

// A complex number is loaded as two floats: a loop that loads both at once would not be vectorized, and a product would
// take 4.7 times as long as torch's.
template <typename T>
struct ScalarAccess {
  static T load(device const T* x, ulong i) { return x[i]; }
  static void store(device T* x, ulong i, T value) { x[i] = value; }
};
template <>
struct ScalarAccess<float2> {
  static float2 load(device const float2* x, ulong i) {
    device const float* parts = (device const float*)x;
    return float2(parts[2 * i], parts[2 * i + 1]);
  }
  static void store(device float2* x, ulong i, float2 value) {
    device float* parts = (device float*)x;
    parts[2 * i] = value.x;
    parts[2 * i + 1] = value.y;
  }
};

template <uint N, bool GRID, typename T>
inline VecBatch<T, N> load_vecs(thread const VecLoop<N, GRID>& d, device const T* x, long stride) {
  if (stride == 1) return {{ScalarAccess<T>::load(x, d.at)}};
  return {{ScalarAccess<T>::load(x, ulong(long(d.at) * stride))}};
}
template <uint N, bool GRID, typename T>
inline void store_vecs(thread const VecLoop<N, GRID>& d, device T* x, long stride, thread const VecBatch<T, N>& v) {
  if (stride == 1)
    ScalarAccess<T>::store(x, d.at, v.at[0]);
  else
    x[long(d.at) * stride] = v.at[0];
}
