// A disk cache of compiled kernels, which the GPU's driver needs tens of milliseconds each to compile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "driver/cuda/device.h"

namespace mpsx::driver::cuda {

// Files in the cache folder (driver/cache_folder.h), with a subfolder per GPU architecture and driver version.
// MPSX_CUDA_CACHE=0 disables it. After any file error the kernel is compiled again.
class CubinCache {
 public:
  explicit CubinCache(const Device&);
  // Finds the code of a kernel in a unit of PTX. Empty if it is not cached.
  std::string find(std::string_view unit, const std::string& symbol) const;
  void store(std::string_view unit, const std::string& symbol, std::string_view cubin) const;

 private:
  static std::string name(std::string_view unit, const std::string& symbol);
  std::string folder_;  // empty if there is no cache
};

}  // namespace mpsx::driver::cuda
