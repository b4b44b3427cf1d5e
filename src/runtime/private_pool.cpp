#include "runtime/private_pool.h"

#include <algorithm>
#include <mutex>

#include "runtime/device.h"

namespace mpsx::runtime {
namespace {

// Guards all pools. A tensor may be released on any thread, while another thread destroys its pool.
std::mutex& pools_mutex() {
  static auto* mutex = new std::mutex;  // never destroyed, because tensors may outlive static objects
  return *mutex;
}

}  // namespace

Block* PrivatePool::allocate(size_t bytes) {
  // A block may be an eighth larger than necessary, like the blocks of the shared cache.
  const size_t most = driver().traits().exact_allocations ? bytes : bytes + bytes / 8;
  {
    std::lock_guard<std::mutex> lock(pools_mutex());
    const auto found = free_.lower_bound(bytes);
    if (found != free_.end() && found->first <= most) {
      Block* const block = found->second;
      free_.erase(found);
      block->size = bytes;
      block->references.store(1, std::memory_order_relaxed);
      return block;
    }
  }
  Block* block = nullptr;
  {
    const PoolPause shared_cache;
    block = runtime::allocate(bytes);
  }
  std::lock_guard<std::mutex> lock(pools_mutex());
  blocks_.push_back(block);
  block->pool.store(this, std::memory_order_release);
  return block;
}

bool return_to_pool(Block* block) noexcept {
  if (!block->pool.load(std::memory_order_acquire)) return false;
  std::lock_guard<std::mutex> lock(pools_mutex());
  PrivatePool* const pool = block->pool.load(std::memory_order_relaxed);  // the pool may just have been destroyed
  if (pool) pool->free_.emplace(block->capacity, block);
  return pool;
}

void PrivatePool::retain_used_blocks() {
  std::lock_guard<std::mutex> lock(pools_mutex());
  for (Block* block : blocks_) {
    uint32_t references = block->references.load();
    while (references && !block->references.compare_exchange_weak(references, references + 1)) {
    }
    if (references) retained_.push_back(block);
  }
}

bool PrivatePool::contains(const void* p) const {
  const auto* const address = static_cast<const char*>(p);
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const Block* block) {
    const auto* const begin = static_cast<const char*>(block->data);
    return address >= begin && address < begin + block->capacity;
  });
}

PrivatePool::~PrivatePool() {
  {
    std::lock_guard<std::mutex> lock(pools_mutex());
    for (Block* block : blocks_) block->pool.store(nullptr, std::memory_order_release);
    for (const auto& [capacity, block] : free_) {
      block->references.store(1, std::memory_order_relaxed);
      retained_.push_back(block);
    }
  }
  for (Block* block : retained_) release(block);
}

}  // namespace mpsx::runtime
