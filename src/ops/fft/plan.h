// Divides a Fourier transform into the passes of metal/fft/pass.metal.
#pragma once

#include <cstdint>
#include <vector>

namespace mpsx::ops::fft {

// Returns the sizes of the passes of an n-point transform. Their product is n. Returns an empty vector if n has a prime
// factor above 13, because the kernels have no such radix.
std::vector<uint32_t> pass_sizes(int64_t n);

// Returns the radix of every stage in a pass.
std::vector<uint32_t> radices(uint32_t size);

// Returns the length of the convolution that Bluestein's algorithm uses for an n-point transform.
int64_t convolution_size(int64_t n);

}  // namespace mpsx::ops::fft
