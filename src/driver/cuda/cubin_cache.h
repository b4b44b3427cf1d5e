// Compiled kernels on disk: the GPU's driver takes tens of milliseconds for each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "driver/cuda/device.h"

namespace mpsx::driver::cuda {

// Files in the cache folder (driver/cache_folder.h), in a folder for each kind of GPU and version of its driver.
// MPSX_CUDA_CACHE=0 turns it off. Whatever goes wrong with files, kernels are compiled again.
class CubinCache {
 public:
  explicit CubinCache(const Device&);
  // Of a kernel in a unit of PTX, as compressed. Empty: not there.
  std::string find(std::string_view unit, const std::string& symbol) const;
  void store(std::string_view unit, const std::string& symbol, std::string_view cubin) const;

 private:
  static std::string name(std::string_view unit, const std::string& symbol);
  std::string folder_;  // empty: there is none
};

}  // namespace mpsx::driver::cuda
