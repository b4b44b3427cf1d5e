// The compressed data format of zlib (RFC 1950 and 1951), read only: kernels are PTX, which is shipped compressed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mpsx::driver::cuda {

// The `size` bytes that `data` stands for. Throws Error where it is damaged.
std::string inflate(std::string_view data, size_t size);

}  // namespace mpsx::driver::cuda
