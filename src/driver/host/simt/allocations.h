// Memory that kernels may be given, with its real size: what the driver allocated and what it was told of (wrapped).
#pragma once

#include <cstddef>
#include <map>
#include <shared_mutex>

namespace mpsx::driver::host::simt {

struct Extent {
  const char* begin = nullptr;  // null: not known
  size_t size = 0;
};

class Allocations {
 public:
  // Exactly `bytes`, with so much untouched address space on either side that an index a little wrong does not lie in
  // another allocation. Filled with a pattern (NaN in any format), since nothing may count on zeros. Null: no memory.
  void* allocate(size_t bytes);
  // Memory of others. It may be added more than once, and may overlap.
  void add(const void* memory, size_t bytes);
  // Frees what was allocated here, forgets what was added.
  void release(const void* memory, size_t bytes) noexcept;
  // The largest known memory that an address lies in, or at whose end it is.
  Extent find(const void* address) const;

 private:
  struct Entry {
    size_t size;
    bool own;
  };
  mutable std::shared_mutex mutex_;
  std::multimap<const char*, Entry> entries_;
  size_t largest_foreign_ = 0;  // that there ever was
};

// Those of the process: kernels' memory does not know which driver it is of.
Allocations& allocations();

}  // namespace mpsx::driver::host::simt
