// CUDA events. An event marks a position in the stream and records the GPU's clock there.
#pragma once

#include "driver/cuda/device.h"

namespace mpsx::driver::cuda {

class CudaEvent {
 public:
  explicit CudaEvent(const Device&);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(CUstream);
  bool query() const;
  void synchronize() const;
  static double elapsed_ms(const CudaEvent& from, const CudaEvent& to);

 private:
  const Device& device_;
  CUevent event_ = nullptr;
  bool recorded_ = false;
};

}  // namespace mpsx::driver::cuda
