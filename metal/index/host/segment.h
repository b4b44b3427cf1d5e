// Process 64 bytes of columns per iteration, because CPU vectors are longer than 16 bytes.
template <typename T>
constexpr constant uint sum_vec_size = 64 / sizeof(T);

// Loops over single elements, because compilers convert a Vec of halves one element at a time.
template <uint N, typename T>
inline void sum_columns(device T* to, device const T* block, device const long* rows, uint first, uint end,
                        constant SegmentParams& p) {
  typedef compute_t<T> C;
  C sum[N];
  const ulong pitch = p.row;
  const uint count = end - first;
  for (uint j = 0; j < N; ++j) sum[j] = p.add ? C(to[j]) : C(0);
  for (uint i = first; i < end; ++i) {
    device const T* x = block + ulong(rows[i]) * pitch;
    MPSX_VECTORIZE
    for (uint j = 0; j < N; ++j) sum[j] = sum_of(sum[j], C(x[j]));
  }
  if (p.by_frequency)
    for (uint j = 0; j < N; ++j) sum[j] = share(sum[j], count);
  MPSX_VECTORIZE
  for (uint j = 0; j < N; ++j) to[j] = T(sum[j]);
}
