// The memory of a buffer with two mappings, one for the CPU and one for the emulated GPU. While encoded work uses the
// buffer and is not complete, the CPU's mapping is inaccessible: a read or write that should have waited ends the
// process with a message. The protection applies to entire buffers.
#pragma once

#include <cstddef>
#include <mutex>

namespace emulation {

// Allow or forbid kernels to use memory.
void allow(void* memory, size_t bytes);
void forbid(void* memory, size_t bytes);

class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  bool valid() const { return cpu_; }
  void* cpu() const { return cpu_; }
  void* gpu() const { return gpu_; }
  size_t size() const { return size_; }

  void give_to_gpu();  // calls must be balanced with take_from_gpu
  void take_from_gpu();

 private:
  size_t size_, mapped_;
  void* cpu_ = nullptr;
  void* gpu_ = nullptr;
  std::mutex mutex_;
  unsigned owners_ = 0;  // number of command buffers that use the memory
};

}  // namespace emulation
