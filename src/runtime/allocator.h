// The caching allocator. It splits driver buffers into blocks of fixed size classes and reuses freed blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "driver/driver.h"

namespace mpsx::runtime {

class PrivatePool;

// One allocation. Reference-counted, because a device storage and the CPU storage that aliases it share a block.
struct Block {
  void* data = nullptr;   // CPU address
  size_t size = 0;        // requested bytes
  size_t capacity = 0;    // reserved bytes
  driver::Buffer buffer;  // the driver buffer that contains the block
  size_t offset = 0;      // offset of the block in `buffer`
  std::atomic<uint32_t> references{1};
  std::shared_ptr<void> owner;  // keeps memory alive that is not the driver's own; otherwise null
  std::atomic<PrivatePool*> pool{nullptr};  // reuses the block when it is released; null for the shared cache
};

// Allocator statistics, in bytes unless noted. `allocated` is memory in use by tensors. `reserved` is memory obtained
// from the driver.
struct MemoryStatistics {
  uint64_t allocated = 0, allocated_peak = 0;
  uint64_t reserved = 0, reserved_peak = 0;
  uint64_t allocated_total = 0, freed_total = 0;  // totals since start or reset
  uint64_t allocations = 0, frees = 0;            // counts since start or reset
  uint64_t active_blocks = 0, active_blocks_peak = 0;
  uint64_t segments = 0, segments_peak = 0;  // driver buffers
  uint64_t retries = 0, out_of_memory = 0;   // numbers of retries and failed allocations
};

// Allocates a block, whose `data` is null if `bytes` is 0. If memory runs out, empties the cache and retries before it
// throws c10::OutOfMemoryError. The error message states the requested size, the memory in use and the limit. In a plan
// (launch_plan.h), the block has an address but uses no memory.
Block* allocate(size_t bytes);
// Allocates host-resident memory for records that the CPU polls after every wait. The memory is never freed.
Block* allocate_host_resident(size_t bytes);
void retain(Block*) noexcept;
void release(Block*) noexcept;

// Wraps another library's buffer (an MTLBuffer) in a block, which keeps `owner` alive. When the block is released,
// waits for the device's work on the buffer before releasing `owner`.
Block* share(void* handle, std::shared_ptr<void> owner);

// Update the statistics for memory that tensors use but that another allocator owns.
void count_external_memory(size_t bytes);
void discount_external_memory(size_t bytes) noexcept;

// Device memory as an argument of a launch. On drivers that use process memory, the handle is the pointer itself.
struct Location {
  void* handle = nullptr;
  size_t offset = 0;
  std::atomic<uint64_t>* last_use_seq = nullptr;  // sequence number of the block's last use, or null if not tracked
  size_t block_begin = 0, block_end = SIZE_MAX;  // the block's offsets in the buffer, if known
};
Location locate(const void* p);
// Returns the sequence number (see Driver::wait_until) of the last work that used the block containing `p`. Returns 0
// if no work used the block or if `p` is not device memory.
uint64_t last_use_seq(const void* p);

// Records that the CPU is about to access the block that contains `p`, which may migrate its pages. See
// Driver::prefetch.
void note_cpu_access(const void* p);

MemoryStatistics memory_statistics();
void reset_peak_statistics();
void reset_accumulated_statistics();
void empty_cache();
// Limits the number of reserved bytes. MPSX_MEMORY_LIMIT sets the initial limit.
void set_memory_limit(size_t bytes);
size_t memory_limit();

}  // namespace mpsx::runtime
