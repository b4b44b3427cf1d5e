// The parameters of a kernel's entry point, out of the arguments of a dispatch.
#pragma once

#include <array>

#include "driver/cuda/kernels.h"

namespace mpsx::driver::cuda {

constexpr uint32_t kMaxBuffers = 31, kMaxThreadgroupBytes = 32768;  // Metal's limits

// The last parameter (src/metal_stdlib/cuda/entry.h).
struct Grid {
  uint32_t threads[3], groups[3], group[3], first[3];
};

// Memory that values lie in which a kernel takes by address: the GPU reads it from the CPU's, until it comes round
// again.
class Upload {
 public:
  explicit Upload(const Device&);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  // Null: the ring is full, and may be begun again when the GPU has done all that it was given.
  const void* put(const void* data, size_t bytes);
  void begin_again() { used_ = 0; }

 private:
  static constexpr size_t kBytes = size_t(1) << 20;
  const Device& device_;
  char* ring_ = nullptr;
  size_t used_ = 0;
};

// Throws Error for what Metal would refuse: too many buffers, values or threadgroup memory of a wrong size, a grid or
// group beyond the limits.
void check(const CudaKernel&, const Argument* arguments, size_t count, const Dispatch&);

class Parameters {
 public:
  // `wait` completes all work that was dispatched before.
  template <typename Wait>
  Parameters(const CudaKernel&, const Argument* arguments, size_t count, Upload&, Wait&& wait);

  void** get(Grid& grid) {
    values_[count_] = &grid;
    return values_.data();
  }
  uint32_t threadgroup_bytes() const { return threadgroup_bytes_; }

 private:
  static constexpr size_t kMost = 2 * kMaxBuffers + 1;
  void* keep(const void* address) { return &(addresses_[count_] = address); }
  void* padded(const void* data, size_t given, size_t wanted);

  std::array<void*, kMost> values_;
  std::array<const void*, kMost> addresses_;
  std::array<uint32_t, kMaxBuffers> offsets_;
  std::vector<std::unique_ptr<char[]>> copies_;
  size_t count_ = 0;
  uint32_t threadgroup_bytes_ = 0;
};

template <typename Wait>
Parameters::Parameters(const CudaKernel& kernel, const Argument* arguments, size_t count, Upload& upload, Wait&& wait) {
  std::array<const Argument*, kMaxBuffers> buffers{};
  size_t given = 0, locals = 0;
  for (size_t i = 0; i < count; ++i) {
    const Argument& a = arguments[i];
    if (a.kind != Argument::Kind::threadgroup) {
      buffers[given++] = &a;
      continue;
    }
    offsets_[locals++] = threadgroup_bytes_;
    threadgroup_bytes_ += uint32_t((a.size + 15) / 16 * 16);
  }
  for (const Parameter& p : kernel.parameters) {
    if (p.kind == Parameter::Kind::threadgroup) {
      if (p.index >= locals)
        throw Error(kernel.name + ": nothing is given for [[threadgroup(" + std::to_string(p.index) + ")]]");
      values_[count_] = &offsets_[p.index];
    } else {
      const Argument& a = *buffers[p.index];
      const bool in_memory = a.kind == Argument::Kind::buffer;
      const void* address = a.data && in_memory ? static_cast<const char*>(a.data) + a.size : a.data;
      if (p.kind == Parameter::Kind::value) {
        // A buffer's contents are known when the work before is done.
        if (in_memory && address) wait();
        values_[count_] = !address                         ? padded(nullptr, 0, p.bytes)
                          : in_memory || a.size >= p.bytes ? const_cast<void*>(address)
                                                           : padded(address, a.size, p.bytes);
      } else {
        if (!in_memory) {
          const void* const data = address;
          address = upload.put(data, a.size);
          if (!address) {
            wait();
            upload.begin_again();
            address = upload.put(data, a.size);
          }
        }
        values_[count_] = keep(address);
      }
    }
    ++count_;
  }
}

}  // namespace mpsx::driver::cuda
