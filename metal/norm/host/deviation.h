// A sample is the whole row, which is in the first-level cache.
#pragma once

template <typename T>
inline float2 sample(thread const RegisterRow<Loader<T>>& row) {
  return float2(row.sum(Deviation{0.0f, kSampleScale}), float(row.n));
}
