// An on-disk cache of compiled kernels. It exists because NVIDIA's driver takes tens of milliseconds to compile a
// kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "driver/cuda/device.h"

namespace mpsx::driver::cuda {

// Stores files in the cache folder (driver/cache_folder.h), with one subfolder per GPU architecture and driver version.
// MPSX_CUDA_CACHE=0 disables the cache. If reading or writing a file fails, the kernel is recompiled.
class CubinCache {
 public:
  explicit CubinCache(const Device&);
  // Returns the cached machine code of a kernel in a PTX unit, or an empty string if it is not cached.
  std::string find(std::string_view unit, const std::string& symbol) const;
  void store(std::string_view unit, const std::string& symbol, std::string_view cubin) const;

 private:
  static std::string name(std::string_view unit, const std::string& symbol);
  std::string folder_;  // empty if caching is disabled
};

}  // namespace mpsx::driver::cuda
