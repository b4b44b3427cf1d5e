// On the host driver, a vector has one element, and the compiler vectorizes the loop around it.
template <typename T, typename R = T>
constexpr constant uint vec_size = 1;
template <uint N>
constexpr constant uint batch = 1;

// A grid has one thread per element, so each of its threads processes one element. A threadgroup has one thread, which
// processes all of its elements.
template <uint N, bool GRID>
struct VecLoop {
  // Use 8-byte members. A struct of 16 bytes would be passed in two registers, which would hide the induction variable.
  ulong at, step, end;
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

// Loads a complex number as two floats. If both were loaded at once, the loop would not be vectorized, and a complex
// multiplication would take 4.7 times as long as in PyTorch.
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
