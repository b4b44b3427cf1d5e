// The GPU and its properties.
#pragma once

#include "driver/cuda/api.h"

namespace mpsx::driver::cuda {

// The GPU that MPSX_CUDA_DEVICE selects (default 0), and its primary context, which PyTorch's CUDA backend also uses.
class Device {
 public:
  // Throws Error with the reason if there is no usable GPU. Creates the context only if `open` is true.
  explicit Device(bool open = true);

  // Makes the context current on the calling thread, which most API calls require.
  void bind() const;

  const Api& api;
  CUdevice number = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int processors = 0;
  int shared_memory = 0;          // maximum bytes per threadgroup
  int driver_version = 0;         // 13000 for CUDA 13.0
  bool overlaps_kernels = false;  // programmatic dependent launch (dependent_launch.h)
  size_t total_memory = 0;

  std::string architecture() const { return "sm_" + std::to_string(major * 10 + minor); }
  // Returns the PTX target to load. On Hopper, this is "sm_90a", for kernels that use Hopper-only instructions. But
  // before CUDA 12.5, ptxas expects different units for the strides of a tensor map (CUTLASS,
  // cute/arch/copy_sm90_desc.hpp), so older drivers use the portable target.
  std::string target() const {
    return architecture() + (major == 9 && minor == 0 && driver_version >= 12050 ? "a" : "");
  }

 private:
  int attribute(int which) const;
  CUcontext context_ = nullptr;
};

}  // namespace mpsx::driver::cuda
