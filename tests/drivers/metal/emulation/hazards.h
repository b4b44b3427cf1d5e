// Checks that barriers and fences order conflicting work, according to the declarations of the driver's callers. The
// engine checks that kernels access no other memory.
#pragma once

#import <Foundation/Foundation.h>

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels.h"

@protocol MTLResidencySet;

namespace emulation {

// Sets what the caller of the driver declared about a buffer index of the dispatch that this thread encodes.
void declare(Launch::Buffer& buffer, unsigned index);
bool uses_other_memory();

// Ends the process if a dispatch conflicts with one of the earlier dispatches since the last barrier.
void check_barriers(const std::vector<Launch>& earlier, const Launch& launch);
// Updates the longest chain of conflicting dispatches.
void count_chain(const Launch& launch);

// The recent encoders of a queue. Records which of them precede each update of a fence.
class Fences {
 public:
  // Ends the process if an encoder with untracked buffers conflicts with an earlier one that it does not wait for.
  void run(const std::vector<Launch>& launches, const std::vector<id>& awaited, const std::vector<id>& updated,
           const std::string& label);

 private:
  struct Encoder {
    uint64_t number;
    std::string label;
    std::vector<Launch> launches;  // without their data
  };
  uint64_t last_ = 0;
  std::deque<Encoder> recent_;
  std::map<id, std::set<uint64_t>> before_;  // the encoders that precede the last update of a fence
};

void add_resident(id<MTLResidencySet> set);
void remove_resident(id<MTLResidencySet> set);

}  // namespace emulation
