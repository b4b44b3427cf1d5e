// A buffer's memory has two mappings, one for the CPU and one for the emulated GPU. The CPU's mapping is inaccessible
// while incomplete work uses the buffer. If the CPU accesses it without waiting, the process ends with a message. The
// protection always covers the entire buffer.
#pragma once

#include <cstddef>
#include <mutex>

namespace emulation {

// Set whether kernels may access the memory.
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

  void give_to_gpu();  // each call must be paired with take_from_gpu()
  void take_from_gpu();

 private:
  size_t size_, mapped_;
  void* cpu_ = nullptr;
  void* gpu_ = nullptr;
  std::mutex mutex_;
  unsigned owners_ = 0;  // number of command buffers that use the memory
};

}  // namespace emulation
