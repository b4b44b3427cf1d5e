// Helpers for nodes of the autograd graph.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>

namespace mpsx::ops {

// Creates a node. PyTorch holds nodes by intrusive_ptr in newer versions and by shared_ptr in older ones.
template <typename T>
auto make_node() {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, T>)
    return c10::make_intrusive<T>();
  else
    return std::shared_ptr<T>(new T, [](T* node) { deleteNode(node); });
}

}  // namespace mpsx::ops
