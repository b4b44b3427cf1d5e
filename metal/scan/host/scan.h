// Scans on the host driver, where a threadgroup is one thread. Each element of a row is read once, and columns are
// scanned row by row. Rows and columns are not split into chunks.

template <typename S, typename T, typename Out>
inline void scan_rows(device const T* in, Out out, constant ScanParams& p, device typename S::State*,
                      threadgroup typename S::State*, GroupThread g) {
  const ulong row = ulong(g.group.x) * p.size;
  device const T* x = in + row;
  const Out to = out.at(row);
  typename S::State s = S::identity();
  for (uint i = 0; i < p.size; ++i) {
    S::next(s, compute_t<T>(x[i]), i);
    to.write(i, s);
  }
}

template <typename S, typename T, typename Out>
inline void scan_columns(device const T* in, Out out, constant ScanParams& p, device typename S::State*,
                         GroupThread g) {
  typename S::State state[kScanColumns];
  const ulong block = ulong(g.group.y) * p.size * p.inner + ulong(g.group.x) * kScanColumns;
  const uint columns = min(uint(kScanColumns), p.inner - g.group.x * kScanColumns);
  for (uint c = 0; c < columns; ++c) state[c] = S::identity();
  for (uint line = 0; line < p.size; ++line) {
    const ulong first = block + ulong(line) * p.inner;
    device const T* row = in + first;
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
