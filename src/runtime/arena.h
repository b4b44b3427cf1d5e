// Large blocks of process memory, carved out of contiguous spans: freed blocks of one size can be reused for another,
// and unused pages go back to the system one by one.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "driver/driver.h"

namespace mpsx::runtime {

// Best fit over spans that the driver allocates and the system backs with pages on first touch. take() returns the
// smallest free range that is long enough; give() coalesces a range with its free neighbours. Not synchronized. Sizes
// are in bytes, multiples of a page.
class Arena {
 public:
  // Null: no free range is long enough.
  void* take(size_t bytes);
  void give(void* range, size_t bytes);

  void add(const driver::Buffer& span);
  // Removes and returns the spans that are unused.
  std::vector<driver::Buffer> remove_empty();

  // Returns up to `bytes` of unused pages to the system, those of the largest free ranges first.
  void trim(size_t bytes, driver::Driver& driver);
  // Bytes of pages that were handed out and not returned to the system since.
  size_t held() const { return held_; }
  size_t spans() const { return spans_.size(); }

 private:
  // The unit in which pages are counted and returned: a huge page of x86.
  static constexpr size_t kUnit = size_t(2) << 20;

  struct Span {
    driver::Buffer buffer;
    std::vector<bool> held;  // by unit
  };

  Span& span_of(const char* p);
  void insert(char* begin, size_t bytes);
  void erase(std::map<char*, size_t>::iterator range);

  std::map<const char*, Span> spans_;  // by address
  std::map<char*, size_t> free_;
  std::set<std::pair<size_t, char*>> by_size_;
  size_t held_ = 0;
};

}  // namespace mpsx::runtime
