// Suballocates large blocks of process memory from contiguous spans. Freed ranges can be reused at other sizes, and
// unused pages return to the OS individually.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "driver/driver.h"

namespace mpsx::runtime {

// A best-fit allocator over spans that the driver reserves and the OS backs with pages on first access. allocate()
// splits the smallest free range that is large enough. free() coalesces a range with adjacent free ranges. Not
// thread-safe. All sizes are in bytes and multiples of the page size.
class Arena {
 public:
  // Returns null if no free range is large enough.
  void* allocate(size_t bytes);
  void free(void* range, size_t bytes);

  void add(const driver::Buffer& span);
  // Removes all unused spans and returns them.
  std::vector<driver::Buffer> remove_empty();

  // Returns up to `bytes` of unused pages to the OS, starting with the largest free ranges.
  void trim(size_t bytes, driver::Driver& driver);
  // Returns the total size of the pages that have been used and not since returned to the OS.
  size_t resident_bytes() const { return resident_bytes_; }
  size_t spans() const { return spans_.size(); }

 private:
  // The granularity for counting and returning pages: one x86 huge page.
  static constexpr size_t kUnit = size_t(2) << 20;

  struct Span {
    driver::Buffer buffer;
    std::vector<bool> resident;  // indexed by unit
  };

  Span& span_containing(const char* p);
  void insert(char* begin, size_t bytes);
  void erase(std::map<char*, size_t>::iterator range);

  std::map<const char*, Span> spans_;           // by address
  std::map<char*, size_t> free_;                // free ranges by address
  std::set<std::pair<size_t, char*>> by_size_;  // free ranges by size
  size_t resident_bytes_ = 0;
};

}  // namespace mpsx::runtime
