// Suballocates large blocks of process memory from contiguous spans. A freed range can be reused for blocks of other
// sizes, and its pages can return to the OS before the rest of the span.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "driver/driver.h"

namespace mpsx::runtime {

// A best-fit allocator. The driver reserves its spans, and the OS backs them with pages on first access. allocate()
// splits the smallest free range that is large enough, and free() coalesces a range with adjacent free ranges. Not
// thread-safe. All sizes are in bytes and are multiples of the page size.
class Arena {
 public:
  // Returns null if no free range is large enough.
  void* allocate(size_t bytes);
  void free(void* range, size_t bytes);

  void add(const driver::Buffer& span);
  // Removes all spans without allocated blocks and returns them.
  std::vector<driver::Buffer> remove_empty();

  // Returns up to `bytes` of unused pages to the OS, starting with the largest free ranges.
  void trim(size_t bytes, driver::Driver& driver);
  // Returns how many bytes of pages have been used and not yet returned to the OS.
  size_t resident_bytes() const { return resident_bytes_; }
  size_t spans() const { return spans_.size(); }

 private:
  // Pages are counted and returned to the OS in units of this size: one x86 huge page.
  static constexpr size_t kUnit = size_t(2) << 20;

  struct Span {
    driver::Buffer buffer;
    std::vector<bool> resident;  // one flag per unit
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
