// Shares tensors with PyTorch's own mps device. Both devices use MTLBuffers, so each can use the other's tensors
// without a copy. Each device has its own queue, so every conversion waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace mpsx::backend {

// Return a tensor on the other device that shares the given tensor's memory. Both functions first wait for the source
// device's work.
at::Tensor from_mps(const at::Tensor& t);
at::Tensor to_mps(const at::Tensor& t);

// Converts the arguments and results of one operator call, waiting only once. For a tensor that came from mps, to_mps()
// returns the original tensor. For any other tensor, it returns a new mps tensor.
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
