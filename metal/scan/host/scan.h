// A CPU's threadgroup is one thread: it reads each element of a row once, and walks its columns line by line.

template <typename S, typename T, typename Out>
inline void scan_row(device const T* x, Out out, uint n, threadgroup typename S::State*, GroupThread) {
  typename S::State s = S::identity();
  for (uint i = 0; i < n; ++i) {
    S::next(s, compute_t<T>(x[i]), i);
    out.write(i, s);
  }
}

template <typename S, typename T, typename Out>
inline void scan_columns(device const T* x, Out out, constant ScanParams& p, uint columns, GroupThread) {
  typename S::State state[kScanColumns];
  for (uint c = 0; c < columns; ++c) state[c] = S::identity();
  for (uint line = 0; line < p.size; ++line) {
    const ulong first = ulong(line) * p.inner;
    device const T* row = x + first;
    const Out to = out.at(first);
    MPSX_VECTORIZE
    for (uint c = 0; c < columns; ++c) {
      typename S::State s = state[c];
      S::next(s, compute_t<T>(row[c]), line);
      state[c] = s;
      to.write(c, s);
    }
  }
}
