// Suballocates small blocks from 1 MiB segments, each with blocks of one size class. A larger block gets its own driver
// buffer or, above 1 MiB on drivers that use process memory, a range of an arena. Freed blocks go to the free list of
// their size class, and rounding up to a size class wastes at most 12.5%.
#include "runtime/allocator.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/arena.h"
#include "runtime/device.h"
#include "runtime/fork.h"
#include "runtime/launch_plan.h"
#include "runtime/private_pool.h"
#include "runtime/segments.h"
#include "runtime/size_class.h"
#include "runtime/stream.h"
#include "runtime/watermarks.h"

namespace mpsx::runtime {
namespace {

constexpr size_t kMaxSmallBlock = size_t(64) << 10;  // larger blocks are not suballocated from segments
constexpr size_t kSegment = size_t(1) << 20;
constexpr size_t kPage = size_t(16) << 10;  // Apple silicon page size
constexpr size_t kClasses = 512;
// CPU programs expect freed memory to return to the OS. On drivers that use process memory, each new allocation
// therefore trims the cache to kMinCached or, if that is more, to 9/8 of the peak usage minus the current usage.
constexpr size_t kMinCached = size_t(32) << 20;
constexpr size_t kMinArenaBlock = size_t(1) << 20;  // larger blocks use the arena if the driver uses process memory
constexpr size_t kSpan = size_t(1) << 30;           // address space reserved at a time, in bytes

class Allocator {
 public:
  Allocator() {
    const driver::Traits& traits = driver().traits();
    const Watermarks marks = watermarks(driver());
    const char* env = std::getenv("MPSX_MEMORY_LIMIT");
    limit_ = env && *env ? memory_limit(env) : marks.high;
    low_ = marks.low;
    uses_process_memory_ = traits.uses_process_memory();
    exact_ = traits.exact_allocations;
  }

  Block* allocate(size_t bytes) {
    const SizeClass c = size_class(bytes);
    std::lock_guard<std::mutex> lock(mutex_);
    if (uses_arena(bytes)) return allocate_from_arena(bytes);
    Block* block = exact_ ? make_block(reserve(bytes, bytes, bytes), 0, bytes) : pop_free_block(c);
    if (!block) block = c.bytes <= kMaxSmallBlock ? split_new_segment(c, bytes) : allocate_large(c, bytes);
    block->size = bytes;
    block->references.store(1, std::memory_order_relaxed);
    count_allocation(block->capacity);
    return block;
  }

  Block* allocate_host_resident(size_t bytes) {
    if (driver().traits().memory != driver::Memory::managed) return allocate(bytes);
    const driver::Buffer buffer = driver().allocate_host_resident(bytes);
    segments_.add(buffer, bytes);
    return make_block(buffer, 0, bytes);
  }

  void free(Block* block) {
    // The owner may hold one of our blocks, so destroy it after releasing the lock.
    const std::shared_ptr<void> owner = std::move(block->owner);
    std::lock_guard<std::mutex> lock(mutex_);
    if (owner) {
      unregister_buffer(block->buffer);
      delete block;
      return;
    }
    count_free(block->capacity);
    const bool in_arena = uses_arena(block->capacity);
    if (!exact_ && !in_arena) return free_[size_class(block->capacity).index].push_back(block);
    in_arena ? arena_.free(block->data, block->capacity) : release_buffer(block->buffer);
    delete block;
  }

  Block* share(void* handle, std::shared_ptr<void> owner) {
    const driver::Buffer buffer = driver().share(handle);
    std::lock_guard<std::mutex> lock(mutex_);
    segments_.add(buffer, buffer.size);
    Block* block = make_block(buffer, 0, buffer.size);
    block->size = buffer.size;
    block->owner = std::move(owner);
    return block;
  }

  void count_external_memory(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.reserved += bytes;
    stats_.reserved_peak = std::max(stats_.reserved_peak, stats_.reserved);
    count_allocation(bytes);
  }
  void discount_external_memory(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.reserved -= bytes;
    count_free(bytes);
  }

  void empty_cache() {
    std::lock_guard<std::mutex> lock(mutex_);
    release_cached();
    peak_allocated_ = stats_.allocated;
  }

  Location locate(const void* p) {
    if (uses_process_memory_ || !p) return {const_cast<void*>(p), 0, nullptr};
    return segments_.locate(p);
  }

  uint64_t last_use_seq(const void* p) { return uses_process_memory_ || !p ? 0 : segments_.last_use_seq(p); }

  void note_cpu_access(const void* p) { segments_.note_cpu_access(p); }

  MemoryStatistics statistics() {
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }
  void reset_peaks() {
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.allocated_peak = stats_.allocated;
    stats_.reserved_peak = stats_.reserved;
    stats_.active_blocks_peak = stats_.active_blocks;
    stats_.segments_peak = stats_.segments;
  }
  void reset_accumulated() {
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.allocated_total = stats_.freed_total = stats_.allocations = stats_.frees = 0;
    stats_.retries = stats_.out_of_memory = 0;
  }
  void set_limit(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    limit_ = bytes;
  }
  size_t limit() {
    std::lock_guard<std::mutex> lock(mutex_);
    return limit_;
  }

 private:
  Block* pop_free_block(const SizeClass& c) {
    auto& list = free_[c.index];
    if (list.empty()) return nullptr;
    Block* block = list.back();
    list.pop_back();
    return block;
  }

  // Splits a new segment into blocks of one size class. Returns the first block.
  Block* split_new_segment(const SizeClass& c, size_t requested) {
    const driver::Buffer buffer = reserve(kSegment, c.bytes, requested);
    auto& list = free_[c.index];
    for (size_t offset = kSegment / c.bytes * c.bytes; offset >= c.bytes;) {
      offset -= c.bytes;
      list.push_back(make_block(buffer, offset, c.bytes));
    }
    return pop_free_block(c);
  }

  static size_t round_up_to_page(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

  Block* allocate_large(const SizeClass& c, size_t requested) {
    const size_t bytes = round_up_to_page(c.bytes);
    if (uses_process_memory_) trim(max_cached(bytes));
    return make_block(reserve(bytes, bytes, requested), 0, c.bytes);
  }

  // Returns how many bytes may stay in the cache when `bytes` more have been allocated.
  size_t max_cached(size_t bytes) const {
    const uint64_t ceiling = peak_allocated_ + peak_allocated_ / 8, now = stats_.allocated + bytes;
    return std::max(kMinCached, size_t(ceiling > now ? ceiling - now : 0));
  }

  bool uses_arena(size_t bytes) const { return uses_process_memory_ && !exact_ && bytes > kMinArenaBlock; }

  Block* allocate_from_arena(size_t requested) {
    const size_t bytes = round_up_to_page(requested), resident = arena_.resident_bytes();
    void* data = arena_.allocate(bytes);
    if (!data) {
      add_span(bytes, requested);
      data = arena_.allocate(bytes);
    }
    update_reserved(resident);
    const size_t cached = stats_.reserved - stats_.allocated - bytes,
                 bound = stats_.reserved > low_ ? 0 : max_cached(bytes);
    if (cached > bound) trim_arena(cached - bound);
    if (stats_.reserved > limit_) {
      ++stats_.retries;
      release_cached();
      if (stats_.reserved > limit_) {
        arena_.free(data, bytes);
        trim_arena(SIZE_MAX);
        out_of_memory(requested, "the limit");
      }
    }
    Block* block = make_block({data, data, bytes}, 0, bytes);
    block->size = requested;
    count_allocation(bytes);
    return block;
  }

  void add_span(size_t bytes, size_t requested) {
    for (const size_t size : {std::max(bytes, kSpan), bytes}) {
      try {
        arena_.add(driver().allocate(size));
        stats_.segments_peak = std::max(stats_.segments_peak, ++stats_.segments);
        return;
      } catch (const driver::OutOfMemory& e) {
        if (size == bytes) out_of_memory(requested, e.what());
      }
    }
  }

  // Updates the statistics after a change of the arena's resident size, which was `before` bytes.
  void update_reserved(size_t before) {
    stats_.reserved += arena_.resident_bytes() - before;
    stats_.reserved_peak = std::max(stats_.reserved_peak, stats_.reserved);
  }

  void trim_arena(size_t bytes) {
    const size_t resident = arena_.resident_bytes();
    arena_.trim(bytes, driver());
    update_reserved(resident);
  }

  static Block* make_block(const driver::Buffer& buffer, size_t offset, size_t bytes) {
    auto* block = new Block;
    block->data = static_cast<char*>(buffer.contents) + offset;
    block->capacity = bytes;
    block->buffer = buffer;
    block->offset = offset;
    return block;
  }

  driver::Buffer reserve(size_t bytes, size_t block_bytes, size_t requested) {
    if (stats_.reserved + bytes > low_) release_cached();
    for (int attempt = 0;; ++attempt) {
      std::string reason = "the limit";
      if (stats_.reserved + bytes <= limit_) {
        try {
          const driver::Buffer buffer = driver().allocate(bytes);
          stats_.reserved += bytes;
          stats_.reserved_peak = std::max(stats_.reserved_peak, stats_.reserved);
          stats_.segments_peak = std::max(stats_.segments_peak, ++stats_.segments);
          segments_.add(buffer, block_bytes);
          return buffer;
        } catch (const driver::OutOfMemory& e) {
          reason = e.what();
        }
      }
      if (attempt == 1) out_of_memory(requested, reason);
      ++stats_.retries;
      // Wait for the device, which may still be using cached blocks. A later wait reports errors of its pending work.
      driver().wait_until_nothrow(UINT64_MAX);
      release_cached();
    }
  }

  [[noreturn]] void out_of_memory(size_t requested, const std::string& reason) {
    ++stats_.out_of_memory;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "mpsx: out of memory. Tried to allocate ", mib(requested), "; ",
                     mib(stats_.allocated), " in use by tensors, ", mib(stats_.reserved), " reserved, limit ",
                     mib(limit_), " (", reason, "). Use smaller batches, free tensors, or raise the limit ",
                     "with MPSX_MEMORY_LIMIT or torch.mpsx.set_per_process_memory_fraction().");
  }

  static std::string mib(size_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f MiB", double(bytes) / (1 << 20));
    return text;
  }

  // Releases free large blocks, starting with the largest, until at most `bound` bytes are cached.
  void trim(size_t bound) {
    if (const size_t cached = stats_.reserved - stats_.allocated; cached > bound) trim_arena(cached - bound);
    for (size_t i = kClasses; i-- > 0 && stats_.reserved - stats_.allocated > bound;) {
      auto& list = free_[i];
      while (!list.empty() && list.back()->capacity > kMaxSmallBlock && stats_.reserved - stats_.allocated > bound) {
        Block* block = list.back();
        list.pop_back();
        release_buffer(block->buffer);
        delete block;
      }
    }
  }

  // Releases every segment without a block in use.
  void release_cached() {
    std::map<const void*, size_t> free_bytes;  // indexed by segment
    for (auto& list : free_)
      for (Block* b : list) free_bytes[b->buffer.contents] += b->capacity;
    auto is_segment_free = [&](const Block* b) {
      const size_t size = b->buffer.size, bytes = free_bytes[b->buffer.contents];
      return b->capacity > kMaxSmallBlock || bytes == size / b->capacity * b->capacity;
    };
    std::map<const void*, driver::Buffer> unused;
    for (auto& list : free_) {
      std::erase_if(list, [&](Block* b) {
        if (!is_segment_free(b)) return false;
        unused.emplace(b->buffer.contents, b->buffer);
        delete b;
        return true;
      });
    }
    for (auto& [contents, buffer] : unused) release_buffer(buffer);
    const size_t resident = arena_.resident_bytes();
    for (const auto& span : arena_.remove_empty()) {
      --stats_.segments;
      driver().release(span);
    }
    update_reserved(resident);
    trim_arena(SIZE_MAX);
  }

  void release_buffer(const driver::Buffer& buffer) {
    stats_.reserved -= buffer.size;
    --stats_.segments;
    unregister_buffer(buffer);
  }

  void unregister_buffer(const driver::Buffer& buffer) {
    segments_.remove(buffer);
    driver().release(buffer);
  }

  void count_free(size_t bytes) {
    stats_.allocated -= bytes;
    stats_.freed_total += bytes;
    ++stats_.frees;
    --stats_.active_blocks;
  }
  void count_allocation(size_t bytes) {
    stats_.allocated += bytes;
    stats_.allocated_total += bytes;
    ++stats_.allocations;
    stats_.allocated_peak = std::max(stats_.allocated_peak, stats_.allocated);
    peak_allocated_ = std::max(peak_allocated_, stats_.allocated);
    stats_.active_blocks_peak = std::max(stats_.active_blocks_peak, ++stats_.active_blocks);
  }

  std::mutex mutex_;
  std::vector<Block*> free_[kClasses];  // free blocks of each size class
  Arena arena_;
  Segments segments_;
  MemoryStatistics stats_;
  uint64_t peak_allocated_ = 0;  // peak since the cache was last emptied
  size_t limit_ = 0, low_ = 0;
  bool uses_process_memory_ = false;
  bool exact_ = false;  // each block has its own driver buffer and is never cached, so the driver can check bounds
};

// The allocator is never destroyed, because tensors may outlive static objects.
Allocator& allocator() {
  static Allocator* a = new Allocator;
  return *a;
}

}  // namespace

Block* allocate(size_t bytes) {
  if (bytes == 0) return new Block;
  check_not_forked();
  if (active_plan) return reserve_addresses(bytes);
  return active_pool ? active_pool->allocate(bytes) : allocator().allocate(bytes);
}
Block* allocate_host_resident(size_t bytes) { return allocator().allocate_host_resident(bytes); }
void retain(Block* block) noexcept { block->references.fetch_add(1, std::memory_order_relaxed); }
void release(Block* block) noexcept {
  if (block->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (is_bad_fork()) return;  // another thread may have held the lock at the time of the fork
  if (return_to_pool(block)) return;
  // The owner does not know about our pending work on its memory, so wait for that work before releasing the memory.
  if (block->owner) wait_for_use_nothrow(block->data);
  block->capacity ? allocator().free(block) : delete block;
}
void count_external_memory(size_t bytes) { allocator().count_external_memory(bytes); }
void discount_external_memory(size_t bytes) noexcept {
  if (!is_bad_fork()) allocator().discount_external_memory(bytes);
}
Block* share(void* handle, std::shared_ptr<void> owner) { return allocator().share(handle, std::move(owner)); }
Location locate(const void* p) { return allocator().locate(p); }
uint64_t last_use_seq(const void* p) { return allocator().last_use_seq(p); }
void note_cpu_access(const void* p) {
  if (p && driver().traits().memory == driver::Memory::managed) allocator().note_cpu_access(p);
}
MemoryStatistics memory_statistics() { return allocator().statistics(); }
void reset_peak_statistics() { allocator().reset_peaks(); }
void reset_accumulated_statistics() { allocator().reset_accumulated(); }
void empty_cache() { allocator().empty_cache(); }
void set_memory_limit(size_t bytes) { allocator().set_limit(bytes); }
size_t memory_limit() { return allocator().limit(); }

}  // namespace mpsx::runtime
