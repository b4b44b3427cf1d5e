// Size classes of the caching allocator.
#pragma once

#include <bit>
#include <cstddef>

namespace mpsx::runtime {

constexpr size_t kMinimum = 64;  // one cache line

struct SizeClass {
  size_t index, bytes;
};
// Returns the smallest size class that fits `bytes`. There are eight classes between consecutive powers of two.
inline SizeClass size_class(size_t bytes) {
  if (bytes <= kMinimum) return {0, kMinimum};
  const unsigned log = unsigned(std::bit_width(bytes - 1)) - 1;  // 2^log < bytes <= 2^(log+1)
  const size_t step = log <= 9 ? kMinimum : size_t(1) << (log - 3);
  const size_t rounded = (bytes + step - 1) / step * step;
  return {size_t(log) * 8 + (rounded >> (log < 3 ? 0 : log - 3)) - 8, rounded};
}

}  // namespace mpsx::runtime
