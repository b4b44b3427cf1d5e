// Memory for one recording (launch_recording.h). A block that is released returns to the recording's pool, so its
// address is not used for anything else as long as the recording exists.
#pragma once

#include <map>
#include <vector>

#include "runtime/allocator.h"

namespace mpsx::runtime {

class PrivatePool {
 public:
  PrivatePool() = default;
  ~PrivatePool();  // blocks in use move to the shared cache, which frees them when they are released
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

  Block* allocate(size_t bytes);
  // Retains the blocks that are in use, so that they stay allocated when their tensors are gone.
  void retain_used_blocks();
  bool contains(const void* p) const;
  const std::vector<Block*>& blocks() const { return blocks_; }

 private:
  friend bool return_to_pool(Block*) noexcept;
  std::vector<Block*> blocks_;
  std::multimap<size_t, Block*> free_;  // by capacity
  std::vector<Block*> retained_;
};

// The pool from which allocate() takes memory on the calling thread, or null.
inline thread_local constinit PrivatePool* active_pool = nullptr;

// Returns a block without references to its pool. Returns false if it has none.
bool return_to_pool(Block*) noexcept;

// Suspends the use of the pool and the recording on this thread, for memory that outlives the recording.
class PoolPause {
 public:
  PoolPause() : pool_(active_pool) { active_pool = nullptr; }
  ~PoolPause() { active_pool = pool_; }
  PoolPause(const PoolPause&) = delete;
  PoolPause& operator=(const PoolPause&) = delete;

 private:
  PrivatePool* const pool_;
};

}  // namespace mpsx::runtime
