// Lets CPU kernels that run on our behalf allocate from the device's cache.
#pragma once

#include <c10/core/Allocator.h>

namespace mpsx::backend {

// While one is alive, results and scratch that CPU kernels allocate on this thread come from the device's cache, where
// CPU kernels and ours share memory (driver host). A training step allocates the same gigabytes again and again, and
// the system would zero each page of them first. Other threads, and CPU tensors outside our calls, are not affected.
class LibraryMemory {
 public:
  LibraryMemory();
  ~LibraryMemory();
  LibraryMemory(const LibraryMemory&) = delete;
  LibraryMemory& operator=(const LibraryMemory&) = delete;
};

// Whether a CPU tensor's memory is a block of the device's cache, and counted there.
bool is_library_memory(const c10::DataPtr& data);

}  // namespace mpsx::backend
