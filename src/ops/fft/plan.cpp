#include "ops/fft/plan.h"

#include <cmath>

#include "fft/params.h"

namespace mpsx::ops::fft {
namespace {

// Maximum size of a pass if there are several passes. It allows a threadgroup to hold eight adjacent columns, so that
// it accesses 64 bytes per row.
constexpr int64_t kMaxOfSeveral = kFftTile / 8;

// Splits n into `count` factors of similar size, each at most kMaxOfSeveral, and appends them to `sizes`. Returns false
// if that is not possible.
bool split(int64_t n, int count, std::vector<uint32_t>& sizes) {
  if (count == 1) {
    if (n > kMaxOfSeveral) return false;
    sizes.push_back(uint32_t(n));
    return true;
  }
  for (auto size = int64_t(std::pow(double(n), 1.0 / count)); size <= kMaxOfSeveral; ++size) {
    if (size < 2 || n % size != 0) continue;
    sizes.push_back(uint32_t(size));
    if (split(n / size, count - 1, sizes)) return true;
    sizes.pop_back();
  }
  return false;
}

}  // namespace

std::vector<uint32_t> pass_sizes(int64_t n) {
  int64_t rest = n;
  for (const int64_t prime : {2, 3, 5, 7, 11, 13})
    while (rest % prime == 0) rest /= prime;
  if (rest != 1) return {};
  if (n <= int64_t(kFftTile)) return {uint32_t(n)};
  std::vector<uint32_t> sizes;
  for (int count = 2; !split(n, count, sizes); ++count) {
  }
  return sizes;
}

std::vector<uint32_t> radices(uint32_t size) {
  if (size == 1) return {1};
  std::vector<uint32_t> result;
  uint32_t twos = 0;
  for (; size % 2 == 0; size /= 2) ++twos;
  for (; twos > 4 || twos == 3; twos -= 3) result.push_back(8);
  for (; twos >= 2; twos -= 2) result.push_back(4);
  if (twos) result.push_back(2);
  for (const uint32_t prime : {3u, 5u, 7u, 11u, 13u})
    for (; size % prime == 0; size /= prime) result.push_back(prime);
  return result;
}

int64_t convolution_size(int64_t n) {
  int64_t size = 1;
  while (size < 2 * n - 1) size *= 2;
  return size;
}

}  // namespace mpsx::ops::fft
