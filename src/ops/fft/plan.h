// How a Fourier transform is divided into the passes of metal/fft/pass.metal.
#pragma once

#include <cstdint>
#include <vector>

namespace mpsx::ops::fft {

// Sizes of the passes of a transform of n points, whose product is n; empty where a prime factor of n has no radix.
std::vector<uint32_t> pass_sizes(int64_t n);

// Radices of the steps of a pass.
std::vector<uint32_t> radices(uint32_t size);

// Points of the convolution that computes a transform of n points by Bluestein's algorithm.
int64_t convolution_size(int64_t n);

}  // namespace mpsx::ops::fft
