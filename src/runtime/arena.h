// Large blocks of memory that the process shares with the CPU: neighbours, so that what was freed in one size serves
// in another, and pages that no block lies on can go back to the system one by one.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "driver/driver.h"

namespace mpsx::runtime {

// Ranges of memory cut from spans, which the driver allocates and the system backs with pages when they are first
// written. The smallest free range that is long enough is taken; a freed one joins its free neighbours. Not
// synchronized. Sizes are bytes, multiples of a page.
class Arena {
 public:
  // Null: no free range is long enough.
  void* take(size_t bytes);
  void give(void* range, size_t bytes);

  void add(const driver::Buffer& span);
  // The spans on which nothing lies, which are the arena's no more.
  std::vector<driver::Buffer> remove_empty();

  // Gives pages back on which nothing lies, of the largest free ranges first, until that were `bytes` or none is left.
  void trim(size_t bytes, driver::Driver& driver);
  // Of pages that were taken and not given back since.
  size_t held() const { return held_; }
  size_t spans() const { return spans_.size(); }

 private:
  // In units of which pages are counted and given back: a huge page of x86.
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
