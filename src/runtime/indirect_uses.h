// Memory that a kernel uses through pointers inside the values of its arguments.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace mpsx::runtime {

// While it exists, the calling thread's launches use the memory at the added addresses, so that the CPU waits for them
// before it accesses that memory.
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
