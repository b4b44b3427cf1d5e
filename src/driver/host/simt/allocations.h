// Tracks the exact bounds of memory that kernels may access: the driver's allocations and wrapped external memory.
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
  // Allocates exactly `bytes` bytes. Red zones on both sides ensure that a slightly out-of-bounds index does not hit a
  // different allocation. The memory is filled with 0xff bytes (NaN in every float format), because kernels must not
  // rely on zeros. Returns null if out of memory.
  void* allocate(size_t bytes);
  // Adds external memory. The same memory may be added several times, and regions may overlap.
  void add(const void* memory, size_t bytes);
  // Frees allocated memory, or unregisters external memory.
  void release(const void* memory, size_t bytes) noexcept;
  // Returns the largest known region that contains an address. If there is none, returns one that ends at the address.
  Extent find(const void* address) const;

 private:
  struct Entry {
    size_t size;
    bool owned;
  };
  mutable std::shared_mutex mutex_;
  std::multimap<const char*, Entry> entries_;
  size_t largest_external_ = 0;  // size of the largest external region that was ever added
};

// The allocations of this process. All drivers share them, because an address does not tell which driver it belongs to.
Allocations& allocations();

}  // namespace mpsx::driver::host::simt
