// Finds the earlier dispatches that a dispatch must wait for, from the memory that their arguments declare.
#pragma once

#include <map>
#include <vector>

#include "driver/driver.h"

namespace mpsx::driver::cuda {

// Dispatches are numbered 0, 1, 2 … in the order of add(). Requires handles that are addresses. Arguments whose handles
// differ may overlap.
class Dependencies {
 public:
  // Returns the earlier dispatches that the next one must wait for, in ascending order. If A waits for B, the result
  // does not contain B next to A.
  const std::vector<size_t>& add(const Argument* arguments, size_t count, const Dispatch&);

 private:
  // Memory whose parts have had the same accesses, or are treated as if they had.
  struct Range {
    uintptr_t end;
    std::vector<size_t> writers, readers;  // the last writers, and the readers since then
  };
  void access(const Argument&, size_t number, std::vector<size_t>& found);

  std::map<uintptr_t, Range> ranges_;        // disjoint, by their first address
  std::vector<std::vector<size_t>> before_;  // results of add()
  std::vector<bool> awaited_;                // whether a later dispatch waits for the dispatch
  size_t barrier_ = 0;                       // all later dispatches wait for dispatch `barrier_` - 1, if there is one
};

// Assigns dispatches to streams. Their number limits how many branches of a graph run at the same time.
class Streams {
 public:
  // Chooses a stream for dispatch `number`, and adds the stream's last dispatch to `before` if it is missing.
  void place(size_t number, std::vector<size_t>& before);

 private:
  std::vector<size_t> last_;  // of each stream
};

}  // namespace mpsx::driver::cuda
