// Memory that CPU libraries take on our behalf, from the device's cache.
#pragma once

#include <c10/core/Allocator.h>

namespace mpsx::backend {

// While one lives, what CPU kernels allocate on this thread, results and scratch, comes from the device's cache where
// CPU kernels and ours share memory (driver host). A step of training takes the same gigabytes again and again: fresh
// from the system, each page of them is zeroed first. Other threads, and CPU tensors outside our calls, are served as
// before.
class LibraryMemory {
 public:
  LibraryMemory();
  ~LibraryMemory();
  LibraryMemory(const LibraryMemory&) = delete;
  LibraryMemory& operator=(const LibraryMemory&) = delete;
};

// Whether a CPU tensor's memory is a block of the device's cache, which counts it.
bool is_library_memory(const c10::DataPtr& data);

}  // namespace mpsx::backend
