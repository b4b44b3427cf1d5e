// An on-disk cache of compiled kernels. It exists because NVIDIA's driver takes tens of milliseconds to compile a
// kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "driver/cuda/device.h"
#include "driver/cuda/ptx_library.h"

namespace mpsx::driver::cuda {

// Stores files in the cache folder (driver/cache_folder.h), with one subfolder per GPU architecture, driver version and
// kind of machine code. MPSX_CUDA_CACHE=0 disables the cache. If reading or writing a file fails, the kernel is
// recompiled.
class CubinCache {
 public:
  CubinCache(const Device&, bool line_info);
  // Returns the cached machine code of a kernel, or an empty string if it is not cached. `registers` limits the
  // registers of a thread. 0 means no limit.
  std::string find(const PtxKernel&, unsigned registers) const;
  void store(const PtxKernel&, unsigned registers, std::string_view cubin) const;

 private:
  static std::string name(const PtxKernel&, unsigned registers);
  std::string folder_;  // empty if caching is disabled
};

}  // namespace mpsx::driver::cuda
