// The known memory of kernels with its exact size: what the driver allocated, and external memory that it wraps.
#pragma once

#include <cstddef>
#include <map>
#include <shared_mutex>

namespace mpsx::driver::host::simt {

struct Extent {
  const char* begin = nullptr;  // null if unknown
  size_t size = 0;
};

class Allocations {
 public:
  // Allocates exactly `bytes`, with unused address space on either side, so that a slightly wrong index is not in
  // another allocation. The memory is filled with a pattern (NaN in any format), because kernels must not rely on
  // zeros. Returns null if out of memory.
  void* allocate(size_t bytes);
  // Adds external memory. It may be added more than once, and may overlap.
  void add(const void* memory, size_t bytes);
  // Frees allocated memory, or removes external memory.
  void release(const void* memory, size_t bytes) noexcept;
  // The largest known memory that contains an address, or that ends there.
  Extent find(const void* address) const;

 private:
  struct Entry {
    size_t size;
    bool owned;
  };
  mutable std::shared_mutex mutex_;
  std::multimap<const char*, Entry> entries_;
  size_t largest_external_ = 0;  // ever added
};

// The allocations of the process. They are shared by all drivers, because an address does not tell its driver.
Allocations& allocations();

}  // namespace mpsx::driver::host::simt
