// How a Fourier transform is divided into the passes of metal/fft/pass.metal.
#pragma once

#include <cstdint>
#include <vector>

namespace mpsx::ops::fft {

// Returns the sizes of the passes of an n-point transform, which multiply to n; empty if a prime factor of n has no
// radix.
std::vector<uint32_t> pass_sizes(int64_t n);

// Returns the radices of the steps of a pass.
std::vector<uint32_t> radices(uint32_t size);

// Returns the length of the convolution by which Bluestein's algorithm computes an n-point transform.
int64_t convolution_size(int64_t n);

}  // namespace mpsx::ops::fft
