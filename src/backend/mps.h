// Tensors of PyTorch's own mps device. Their memory is an MTLBuffer, which is what the Metal driver's memory is too, so
// either device takes the other's tensors without a copy. Each device has a queue of its own, so crossing
// over waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace mpsx::backend {

// An mpsx tensor over the memory of a tensor on mps, and the reverse. Waits for the work of the device that it comes
// from.
at::Tensor from_mps(const at::Tensor& t);
at::Tensor to_mps(const at::Tensor& t);

// The views of one operator's arguments: from_mps() for each of them, with one wait for all. An argument comes back as
// itself, a result as a tensor on mps.
class MpsArguments {
 public:
  MpsArguments();
  at::Tensor take(const at::Tensor& mps);
  at::Tensor give_back(const at::Tensor& device);

 private:
  struct Pair {
    at::Tensor mps, device;
  };
  std::vector<Pair> pairs_;
};

}  // namespace mpsx::backend
