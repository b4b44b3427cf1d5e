// Shares tensors with PyTorch's own mps device. Both devices use MTLBuffers, so each can use the other's tensors
// without a copy. But each has its own queue, so every conversion must wait.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace mpsx::backend {

// Return a tensor on the other device over the memory of the given tensor. Both first wait for the given tensor's
// device.
at::Tensor from_mps(const at::Tensor& t);
at::Tensor to_mps(const at::Tensor& t);

// Converts the arguments and results of one operator call. Waits only once. If a tensor came from mps, to_mps() returns
// the original mps tensor. Otherwise, it returns a new one.
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
