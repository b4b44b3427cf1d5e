// The GPU: found, and found able.
#pragma once

#include "driver/cuda/api.h"

namespace mpsx::driver::cuda {

// The first GPU, or the one that MPSX_CUDA_DEVICE numbers; its primary context, which torch's own CUDA shares.
class Device {
 public:
  // Throws Error with the reason why there is none. Without `open` it is only looked at.
  explicit Device(bool open = true);

  // Makes the context the calling thread's. Every call of the API but the first few needs that.
  void bind() const;

  const Api& api;
  CUdevice number = 0;
  std::string name;
  int major = 0, minor = 0;  // of the compute capability
  int processors = 0;
  int driver_version = 0;  // 13000: made for CUDA 13.0
  size_t total_memory = 0;

  std::string architecture() const { return "sm_" + std::to_string(major * 10 + minor); }

 private:
  int attribute(int which) const;
  CUcontext context_ = nullptr;
};

}  // namespace mpsx::driver::cuda
