// A tensor of Metal 4 as an argument of a kernel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpsx::driver {

// Dimension 0 varies fastest. Kernels that address memory by pointers get the first kBindingBytes as an argument passed
// by value, which they read as mpsx::tensor_binding (metal_stdlib/tensor/tensor.h). Drivers with Memory::buffers get
// the whole object as the bytes of an argument that the kernel declares as a tensor (ReflectedKernel::tensors).
struct TensorArgument {
  static constexpr uint32_t kMaxRank = 8;
  static constexpr size_t kBindingBytes = sizeof(void*) + 2 * kMaxRank * sizeof(int64_t);
  const void* data = nullptr;
  int64_t sizes[kMaxRank] = {}, strides[kMaxRank] = {};  // in elements
  uint32_t rank = 0;
  const char* element = "";      // "half", as Metal spells it
  const void* handle = nullptr;  // the buffer that contains `data`
  size_t offset = 0;             // of `data` in that buffer, in bytes
};
static_assert(offsetof(TensorArgument, rank) == TensorArgument::kBindingBytes);

}  // namespace mpsx::driver
