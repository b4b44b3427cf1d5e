// Tracks memory that a kernel accesses through pointers stored in its arguments.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace mpsx::runtime {

// While this object exists, every launch of the calling thread marks the added blocks as used. The CPU then waits for
// the launch before it accesses them.
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
