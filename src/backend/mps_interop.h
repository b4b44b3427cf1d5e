// Shares tensors with PyTorch's own mps device. Both devices' memory consists of MTLBuffers, so either can use the
// other's tensors without a copy. Each device has its own queue, so every conversion waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace mpsx::backend {

// Returns an mpsx tensor over the memory of an mps tensor, or the reverse. Waits for the source device's work.
at::Tensor from_mps(const at::Tensor& t);
at::Tensor to_mps(const at::Tensor& t);

// Converts the arguments and results of one operator call, and waits only once. to_mps() returns an argument as itself
// and any other tensor as a new tensor on mps.
class MpsArguments {
 public:
  MpsArguments();
  at::Tensor from_mps(const at::Tensor& mps);
  at::Tensor to_mps(const at::Tensor& device);

 private:
  struct Pair {
    at::Tensor mps, device;
  };
  std::vector<Pair> pairs_;
};

}  // namespace mpsx::backend
