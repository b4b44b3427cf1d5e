// The GPU and its properties.
#pragma once

#include "driver/cuda/api.h"

namespace mpsx::driver::cuda {

// GPU number MPSX_CUDA_DEVICE (default 0) with its primary context, which it shares with torch's CUDA backend.
class Device {
 public:
  // Throws Error with the reason if no usable GPU is found. Creates the context only if `open` is true.
  explicit Device(bool open = true);

  // Makes the context current on the calling thread. Most API calls require this.
  void bind() const;

  const Api& api;
  CUdevice number = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int processors = 0;
  int shared_memory = 0;   // the most bytes that a threadgroup can use
  int driver_version = 0;  // 13000 for CUDA 13.0
  size_t total_memory = 0;

  std::string architecture() const { return "sm_" + std::to_string(major * 10 + minor); }
  // The architecture, with the suffix of the GPU's own instructions if mpsx has code with them. ptxas before CUDA 12.5
  // reads the strides of a tensor map in other units (CUTLASS, cute/arch/copy_sm90_desc.hpp), so older drivers run the
  // code for every GPU.
  std::string target() const {
    return architecture() + (major == 9 && minor == 0 && driver_version >= 12050 ? "a" : "");
  }

 private:
  int attribute(int which) const;
  CUcontext context_ = nullptr;
};

}  // namespace mpsx::driver::cuda
