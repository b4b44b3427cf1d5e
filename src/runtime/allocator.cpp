// Small blocks are carved out of 1 MiB segments, one size class per segment; each larger block is a driver buffer, or,
// beyond 1 MiB and where kernels take memory of the process, a range of an arena. Freed blocks wait in their class and
// are reused for requests that waste at most 12.5% of them; ranges coalesce and are cut to any size.
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
#include "runtime/segments.h"
#include "runtime/size_class.h"
#include "runtime/stream.h"
#include "runtime/watermarks.h"

namespace mpsx::runtime {
namespace {

constexpr size_t kSmallLimit = size_t(64) << 10;  // above: a driver buffer a block
constexpr size_t kSegment = size_t(1) << 20;
constexpr size_t kPage = size_t(16) << 10;  // Apple silicon's page
constexpr size_t kClasses = 512;
// Where kernels take memory of the process, at most this much stays cached while new memory is allocated, or as much as
// fits into 9/8 of the peak in use: CPU programs expect freed memory to go back to the system.
constexpr size_t kIdle = size_t(32) << 20;
constexpr size_t kRangeLimit = size_t(1) << 20;  // above: a range of the arena, where there is one
constexpr size_t kSpan = size_t(1) << 30;        // of address space

class Allocator {
 public:
  Allocator() {
    const driver::Traits& traits = driver().traits();
    const Watermarks marks = watermarks(driver());
    const char* env = std::getenv("MPSX_MEMORY_LIMIT");
    limit_ = env && *env ? memory_limit(env) : marks.high;
    low_ = marks.low;
    process_memory_ = traits.adopts_memory();
    exact_ = traits.exact_allocations;
  }

  Block* allocate(size_t bytes) {
    const SizeClass c = size_class(bytes);
    std::lock_guard<std::mutex> lock(mutex_);
    if (in_arena(bytes)) return take_range(bytes);
    Block* block = exact_ ? make_block(reserve(bytes, bytes, bytes), 0, bytes) : take(c);
    if (!block) block = c.bytes <= kSmallLimit ? carve(c, bytes) : fresh(c, bytes);
    block->size = bytes;
    block->references.store(1, std::memory_order_relaxed);
    count_allocation(block->capacity);
    return block;
  }

  Block* allocate_near_cpu(size_t bytes) {
    if (driver().traits().memory != driver::Memory::managed) return allocate(bytes);
    const driver::Buffer buffer = driver().allocate_near_cpu(bytes);
    segments_.add(buffer, bytes);
    return make_block(buffer, 0, bytes);
  }

  void free(Block* block) {
    // Destroyed after the lock is released: it may own a block of ours.
    const std::shared_ptr<void> owner = std::move(block->owner);
    std::lock_guard<std::mutex> lock(mutex_);
    if (owner) {
      forget(block->buffer);
      delete block;
      return;
    }
    count_free(block->capacity);
    const bool in_range = in_arena(block->capacity);
    if (!exact_ && !in_range) return free_[size_class(block->capacity).index].push_back(block);
    in_range ? arena_.give(block->data, block->capacity) : give_back(block->buffer);
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

  void count_adopted(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.reserved += bytes;
    stats_.reserved_peak = std::max(stats_.reserved_peak, stats_.reserved);
    count_allocation(bytes);
  }
  void discount_adopted(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.reserved -= bytes;
    count_free(bytes);
  }

  void empty_cache() {
    std::lock_guard<std::mutex> lock(mutex_);
    release_cached();
    most_allocated_ = stats_.allocated;
  }

  Location locate(const void* p) {
    if (process_memory_ || !p) return {const_cast<void*>(p), 0, nullptr};
    return segments_.locate(p);
  }

  uint64_t last_use(const void* p) {
    if (process_memory_ || !p) return 0;
    return segments_.last_use(p);
  }

  void touch(const void* p) { segments_.touch(p); }

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
  Block* take(const SizeClass& c) {
    auto& list = free_[c.index];
    if (list.empty()) return nullptr;
    Block* block = list.back();
    list.pop_back();
    return block;
  }

  // A new segment, cut into blocks of one class.
  Block* carve(const SizeClass& c, size_t asked) {
    const driver::Buffer buffer = reserve(kSegment, c.bytes, asked);
    auto& list = free_[c.index];
    for (size_t offset = kSegment / c.bytes * c.bytes; offset >= c.bytes;) {
      offset -= c.bytes;
      list.push_back(make_block(buffer, offset, c.bytes));
    }
    return take(c);
  }

  static size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

  Block* fresh(const SizeClass& c, size_t asked) {
    const size_t bytes = whole_pages(c.bytes);
    if (process_memory_) trim(idle_bound(bytes));
    return make_block(reserve(bytes, bytes, asked), 0, c.bytes);
  }

  // How much may stay cached when `bytes` more are allocated.
  size_t idle_bound(size_t bytes) const {
    const uint64_t most = most_allocated_ + most_allocated_ / 8, now = stats_.allocated + bytes;
    return std::max(kIdle, size_t(most > now ? most - now : 0));
  }

  // Needs pages that are the process's own and unchecked.
  bool in_arena(size_t bytes) const { return process_memory_ && !exact_ && bytes > kRangeLimit; }

  Block* take_range(size_t asked) {
    const size_t bytes = whole_pages(asked), held = arena_.held();
    void* data = arena_.take(bytes);
    if (!data) {
      add_span(bytes, asked);
      data = arena_.take(bytes);
    }
    count_held(held);
    const size_t idle = stats_.reserved - stats_.allocated - bytes,
                 bound = stats_.reserved > low_ ? 0 : idle_bound(bytes);
    if (idle > bound) trim_arena(idle - bound);
    if (stats_.reserved > limit_) {
      ++stats_.retries;
      release_cached();
      if (stats_.reserved > limit_) {
        arena_.give(data, bytes);
        trim_arena(SIZE_MAX);
        out_of_memory(asked, "the limit");
      }
    }
    Block* block = make_block({data, data, bytes}, 0, bytes);
    block->size = asked;
    count_allocation(bytes);
    return block;
  }

  void add_span(size_t bytes, size_t asked) {
    for (const size_t size : {std::max(bytes, kSpan), bytes}) {
      try {
        arena_.add(driver().allocate(size));
        stats_.segments_peak = std::max(stats_.segments_peak, ++stats_.segments);
        return;
      } catch (const driver::OutOfMemory& e) {
        if (size == bytes) out_of_memory(asked, e.what());
      }
    }
  }

  // Updates the statistics after the arena, which held `before`, has changed.
  void count_held(size_t before) {
    stats_.reserved += arena_.held() - before;
    stats_.reserved_peak = std::max(stats_.reserved_peak, stats_.reserved);
  }

  void trim_arena(size_t bytes) {
    const size_t held = arena_.held();
    arena_.trim(bytes, driver());
    count_held(held);
  }

  static Block* make_block(const driver::Buffer& buffer, size_t offset, size_t bytes) {
    auto* block = new Block;
    block->data = static_cast<char*>(buffer.contents) + offset;
    block->capacity = bytes;
    block->buffer = buffer;
    block->offset = offset;
    return block;
  }

  driver::Buffer reserve(size_t bytes, size_t block_bytes, size_t asked) {
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
      if (attempt == 1) out_of_memory(asked, reason);
      ++stats_.retries;
      driver().finish(UINT64_MAX);  // memory in use by the device becomes free; what failed is raised by the next wait
      release_cached();
    }
  }

  [[noreturn]] void out_of_memory(size_t asked, const std::string& reason) {
    ++stats_.out_of_memory;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "mpsx: out of memory. Tried to allocate ", mib(asked), "; ",
                     mib(stats_.allocated), " in use by tensors, ", mib(stats_.reserved), " reserved, limit ",
                     mib(limit_), " (", reason, "). Use smaller batches, free tensors, or raise the limit ",
                     "with MPSX_MEMORY_LIMIT or torch.mpsx.set_per_process_memory_fraction().");
  }

  static std::string mib(size_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f MiB", double(bytes) / (1 << 20));
    return text;
  }

  // Releases large free blocks, the largest first, until at most `bound` bytes are cached.
  void trim(size_t bound) {
    if (const size_t idle = stats_.reserved - stats_.allocated; idle > bound) trim_arena(idle - bound);
    for (size_t i = kClasses; i-- > 0 && stats_.reserved - stats_.allocated > bound;) {
      auto& list = free_[i];
      while (!list.empty() && list.back()->capacity > kSmallLimit && stats_.reserved - stats_.allocated > bound) {
        Block* block = list.back();
        list.pop_back();
        give_back(block->buffer);
        delete block;
      }
    }
  }

  // Releases every segment that has no block in use.
  void release_cached() {
    std::map<const void*, size_t> idle;  // bytes of free blocks, by segment
    for (auto& list : free_)
      for (Block* b : list) idle[b->buffer.contents] += b->capacity;
    auto whole = [&](const Block* b) {
      const size_t size = b->buffer.size, used = idle[b->buffer.contents];
      return b->capacity > kSmallLimit || used == size / b->capacity * b->capacity;
    };
    std::map<const void*, driver::Buffer> gone;
    for (auto& list : free_) {
      std::erase_if(list, [&](Block* b) {
        if (!whole(b)) return false;
        gone.emplace(b->buffer.contents, b->buffer);
        delete b;
        return true;
      });
    }
    for (auto& [contents, buffer] : gone) give_back(buffer);
    const size_t held = arena_.held();
    for (const auto& span : arena_.remove_empty()) {
      --stats_.segments;
      driver().release(span);
    }
    count_held(held);
    trim_arena(SIZE_MAX);
  }

  void give_back(const driver::Buffer& buffer) {
    stats_.reserved -= buffer.size;
    --stats_.segments;
    forget(buffer);
  }

  void forget(const driver::Buffer& buffer) {
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
    most_allocated_ = std::max(most_allocated_, stats_.allocated);
    stats_.active_blocks_peak = std::max(stats_.active_blocks_peak, ++stats_.active_blocks);
  }

  std::mutex mutex_;
  std::vector<Block*> free_[kClasses];
  Arena arena_;
  Segments segments_;
  MemoryStatistics stats_;
  uint64_t most_allocated_ = 0;  // since the cache was last emptied
  size_t limit_ = 0, low_ = 0;
  bool process_memory_ = false;
  bool exact_ = false;  // a driver buffer a block, and nothing kept: the driver watches what lies beyond its end
};

// Never destroyed: tensors may outlive every static object.
Allocator& allocator() {
  static Allocator* a = new Allocator;
  return *a;
}

}  // namespace

Block* allocate(size_t bytes) {
  if (bytes == 0) return new Block;
  restart_check();
  return allocator().allocate(bytes);
}
Block* allocate_near_cpu(size_t bytes) { return allocator().allocate_near_cpu(bytes); }
void retain(Block* block) noexcept { block->references.fetch_add(1, std::memory_order_relaxed); }
void release(Block* block) noexcept {
  if (block->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (is_bad_fork()) return;  // another thread may have had the lock when the process was forked
  // The owner does not know of our work on the memory.
  if (block->owner) finish_use(block->data);
  block->data ? allocator().free(block) : delete block;
}
void count_adopted(size_t bytes) { allocator().count_adopted(bytes); }
void discount_adopted(size_t bytes) noexcept {
  if (!is_bad_fork()) allocator().discount_adopted(bytes);
}
Block* share(void* handle, std::shared_ptr<void> owner) { return allocator().share(handle, std::move(owner)); }
Location locate(const void* p) { return allocator().locate(p); }
uint64_t last_use(const void* p) { return allocator().last_use(p); }
void touch(const void* p) {
  if (p && driver().traits().memory == driver::Memory::managed) allocator().touch(p);
}
MemoryStatistics memory_statistics() { return allocator().statistics(); }
void reset_peak_statistics() { allocator().reset_peaks(); }
void reset_accumulated_statistics() { allocator().reset_accumulated(); }
void empty_cache() { allocator().empty_cache(); }
void set_memory_limit(size_t bytes) { allocator().set_limit(bytes); }
size_t memory_limit() { return allocator().limit(); }

}  // namespace mpsx::runtime
