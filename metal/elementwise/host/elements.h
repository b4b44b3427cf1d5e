// A complex number is two floats here: a loop that loads both at once would not become one of vectors, and a product
// would take 4.7 times torch's time.
template <typename T>
struct Parts {
  static T load(device const T* x, uint i) { return x[i]; }
  static void store(device T* x, uint i, T value) { x[i] = value; }
};
template <>
struct Parts<float2> {
  static float2 load(device const float2* x, uint i) {
    device const float* parts = (device const float*)x;
    return float2(parts[2 * ulong(i)], parts[2 * ulong(i) + 1]);
  }
  static void store(device float2* x, uint i, float2 value) {
    device float* parts = (device float*)x;
    parts[2 * ulong(i)] = value.x;
    parts[2 * ulong(i) + 1] = value.y;
  }
};

template <typename T>
inline T element(device const T* x, uint i) { return Parts<T>::load(x, i); }
template <typename T>
inline void set_element(device T* x, uint i, T value) { Parts<T>::store(x, i, value); }
