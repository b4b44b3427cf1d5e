// The caching allocator: driver buffers, cut into size classes and kept for reuse.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "driver/driver.h"

namespace mpsx::runtime {

// One allocation. Reference-counted: a storage and its CPU twin may both hold it.
struct Block {
  void* data = nullptr;   // CPU address
  size_t size = 0;        // as asked for
  size_t capacity = 0;    // as reserved
  driver::Buffer buffer;  // the driver buffer it lies in
  size_t offset = 0;      // in that buffer
  std::atomic<uint32_t> references{1};
  std::shared_ptr<void> owner;  // whose memory it is, if it is not ours
};

// Bytes unless said otherwise. `allocated` is what tensors hold, `reserved` what the driver gave.
struct MemoryStatistics {
  uint64_t allocated = 0, allocated_peak = 0;
  uint64_t reserved = 0, reserved_peak = 0;
  uint64_t allocated_total = 0, freed_total = 0;  // accumulated since start or reset
  uint64_t allocations = 0, frees = 0;            // counts, accumulated
  uint64_t active_blocks = 0, active_blocks_peak = 0;
  uint64_t segments = 0, segments_peak = 0;  // driver buffers
  uint64_t retries = 0, out_of_memory = 0;   // counts
};

// Throws c10::OutOfMemoryError with what was asked, what is in use and what the limit is, after having
// emptied the cache once. Zero bytes give a block with null data.
Block* allocate(size_t bytes);
// For records that the CPU looks at after every wait. Never freed.
Block* allocate_near_cpu(size_t bytes);
void retain(Block*) noexcept;
void release(Block*) noexcept;

// A block over another library's buffer (an MTLBuffer), which `owner` keeps. The CPU waits for the device's work on it
// before the owner gets it back.
Block* share(void* handle, std::shared_ptr<void> owner);

// Counts foreign memory that tensors hold from now on (or no longer) as allocated and reserved.
void count_adopted(size_t bytes);
void discount_adopted(size_t bytes) noexcept;

// Locates device memory for a launch. If the driver takes any memory of the process, the handle is `p` itself.
struct Location {
  void* handle;
  size_t offset;
  std::atomic<uint64_t>* last_use;  // the block's; null: not kept
};
Location locate(const void* p);
// The place (see Driver::reach) of the last work on the block at `p`; 0: none, or not the device's memory.
uint64_t last_use(const void* p);

// The CPU is about to use the block, and pages of its may move: see Driver::prefetch.
void touch(const void* p);

MemoryStatistics memory_statistics();
void reset_peak_statistics();
void reset_accumulated_statistics();
void empty_cache();
// A share of total memory that may be reserved, 0 < fraction; MPSX_MEMORY_LIMIT (bytes) sets it at start.
void set_memory_limit(size_t bytes);
size_t memory_limit();

}  // namespace mpsx::runtime
