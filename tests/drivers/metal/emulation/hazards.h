// Checks that barriers, fences and events order conflicting work, according to the declarations of the driver's
// callers. The engine checks that kernels access no other memory.
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

// Orders a queue's encoders relative to each other and to those of other queues. Only the queue's thread uses it.
class Order {
 public:
  explicit Order(bool metal_4) : metal_4_(metal_4) {}
  ~Order();

  // Records that the queue's later encoders run after everything that precedes the signal of an event.
  void wait(id event, uint64_t value);
  // Ends the process if the encoder conflicts with a recent one that it does not wait for: one of the same queue, if
  // Metal does not track the memory, or one of another queue, if one of the two is a queue of Metal 4. Metal does not
  // track hazards there.
  void run(const std::vector<Launch>& launches, const std::vector<id>& awaited, const std::vector<id>& updated,
           const std::string& label);
  // Call this before the value of the event changes.
  void signal(id event, uint64_t value);
  // The queue whose completion handlers the calling thread runs, or null. If they set an event, the queue signals it.
  static thread_local Order* completing;
  // Forgets an event that is freed.
  static void forget(id event);

 private:
  using Encoders = std::set<uint64_t>;
  const bool metal_4_;
  Encoders waited_;                 // precede all later encoders
  Encoders done_;                   // precede the queue's next signal
  std::map<id, Encoders> updated_;  // precede the last update of a fence
};

void add_resident(id<MTLResidencySet> set);
void remove_resident(id<MTLResidencySet> set);

}  // namespace emulation
