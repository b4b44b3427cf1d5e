// The memory of a buffer, seen twice: by the CPU through one mapping, by the emulated GPU through another. While work
// that the buffer is bound to has been encoded and is not complete, the CPU's mapping is closed: a read or write that
// should have waited ends the process, with a message. Pages are the grain, whole buffers what is closed.
#pragma once

#include <cstddef>
#include <mutex>

namespace emulation {

// Tells the engine that kernels may use some memory, and no longer.
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

  void give_to_gpu();  // as often as take_from_gpu
  void take_from_gpu();

 private:
  size_t size_, mapped_;
  void* cpu_ = nullptr;
  void* gpu_ = nullptr;
  std::mutex mutex_;
  unsigned owners_ = 0;  // command buffers
};

}  // namespace emulation
