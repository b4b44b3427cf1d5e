// A Metal 4 tensor passed to a kernel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpsx::driver {

// Dimension 0 varies fastest. If kernels address memory by pointers, the kernel receives the first kBindingBytes by
// value, as mpsx::tensor_binding (metal_stdlib/tensor/tensor.h). On drivers with Memory::buffers, the driver receives
// the entire object as the bytes of a parameter that the kernel declares as a tensor (ReflectedKernel::tensors).
struct TensorArgument {
  static constexpr uint32_t kMaxRank = 8;
  static constexpr size_t kBindingBytes = sizeof(void*) + 2 * kMaxRank * sizeof(int64_t);
  const void* data = nullptr;
  int64_t sizes[kMaxRank] = {}, strides[kMaxRank] = {};  // in elements
  uint32_t rank = 0;
  const char* element = "";      // the element type in Metal, for example "half"
  const void* handle = nullptr;  // the buffer that contains `data`
  size_t offset = 0;             // offset of `data` in that buffer, in bytes
};
static_assert(offsetof(TensorArgument, rank) == TensorArgument::kBindingBytes);

}  // namespace mpsx::driver
