// Tracks memory that kernels access through pointers stored in their arguments.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace mpsx::runtime {

// While this object exists, each launch on the calling thread marks the added blocks as used, so the CPU waits for the
// launch before it accesses them.
class IndirectUses {
 public:
  IndirectUses();
  ~IndirectUses();
  IndirectUses(const IndirectUses&) = delete;
  IndirectUses& operator=(const IndirectUses&) = delete;
  void add(std::atomic<uint64_t>* last_use_seq) {
    if (last_use_seq) last_use_seqs_.push_back(last_use_seq);
  }

 private:
  std::vector<std::atomic<uint64_t>*> last_use_seqs_;
};

}  // namespace mpsx::runtime
