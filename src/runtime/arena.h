// Suballocates large blocks of process memory from contiguous spans. Freed ranges can be reused for other sizes, and
// unused pages return to the system individually.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "driver/driver.h"

namespace mpsx::runtime {

// Best fit over spans that the driver allocates and the system backs with pages on first access. allocate() splits the
// smallest free range that is large enough; free() coalesces a range with adjacent free ranges. Not synchronized. Sizes
// are in bytes, multiples of a page.
class Arena {
 public:
  // Returns null if no free range is large enough.
  void* allocate(size_t bytes);
  void free(void* range, size_t bytes);

  void add(const driver::Buffer& span);
  // Removes and returns the spans that are unused.
  std::vector<driver::Buffer> remove_empty();

  // Returns up to `bytes` of unused pages to the system, starting with the largest free ranges.
  void trim(size_t bytes, driver::Driver& driver);
  // Bytes of pages that have been used and not returned to the system since.
  size_t resident_bytes() const { return resident_bytes_; }
  size_t spans() const { return spans_.size(); }

 private:
  // The granularity at which pages are counted and returned: an x86 huge page.
  static constexpr size_t kUnit = size_t(2) << 20;

  struct Span {
    driver::Buffer buffer;
    std::vector<bool> resident;  // by unit
  };

  Span& span_containing(const char* p);
  void insert(char* begin, size_t bytes);
  void erase(std::map<char*, size_t>::iterator range);

  std::map<const char*, Span> spans_;           // by address
  std::map<char*, size_t> free_;                // free ranges by address
  std::set<std::pair<size_t, char*>> by_size_;  // the same ranges by size
  size_t resident_bytes_ = 0;
};

}  // namespace mpsx::runtime
